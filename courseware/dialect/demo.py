"""`:::demo NAME 标题`: a demo's element round a figure that is complete without any script.

Contract: NAME is a template `NAME.html.j2` of the option `demos`; the title is inline Markdown; the body says what to see
there. The template gets the keys of the ledger's demos[NAME]["data"], the whole as `data`, and `record(FILE#KEY)`. Filters: `si` (bytes in
kB, MB, GB of 10³, four significant digits), `kib` (bytes in KiB), `sig` (four significant digits), `comma`, `log10`. A
template that fails, or data that is missing, is said in place and logged.
"""

from __future__ import annotations

import html
import math
import re
import traceback
import xml.etree.ElementTree as etree
from functools import lru_cache, partial
from pathlib import Path

import jinja2
from markdown import Markdown
from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from courseware.dialect.course import LOG, Course, register

SUFFIX = ".html.j2"


def demo_names(folder: Path | str) -> list[str]:
    """Demos that have a template; a leading underscore marks what templates share."""
    return sorted(p.name.removesuffix(SUFFIX) for p in Path(folder).glob(f"*{SUFFIX}") if not p.name.startswith("_"))


def split_title(text: str) -> tuple[str, str]:
    """NAME and title of `NAME 标题`."""
    name, _, title = text.strip().partition(" ")
    return name, title.strip()


def significant(value: float | str, digits: int = 4) -> str:
    """Four significant digits, no exponent, no padding zeros beyond them; NaN and ±inf (strings in JSON) as symbols."""
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    places = digits - 1 - math.floor(math.log10(abs(rounded)))  # 9.9999 became 10.00
    return f"{rounded:,.{max(0, places)}f}".replace("-", "−")


def si(count: float) -> str:
    """Bytes with a decimal prefix: 16777216 -> 16.78 MB."""
    count = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.95 or unit == "TB":
            return f"{count:,.0f} B" if unit == "B" else f"{significant(count)} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def kib(count: float) -> str:
    """Bytes in KiB of 1024: 221696 -> 216.5 KiB; no trailing zeros."""
    text = significant(float(count) / 1024)
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " KiB"


def comma(value: float | str) -> str:
    """An integer with groups of three; 10000000 -> 10,000,000."""
    return f"{int(value):,}".replace("-", "−")


@lru_cache
def environment(folder: str) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"si": si, "kib": kib, "sig": significant, "comma": comma, "log10": lambda x: math.log10(float(x))}
    return made


class Fault(Exception):
    """A demo that cannot be drawn; the message is shown in its place."""


def render(name: str, course: Course) -> str:
    """HTML of a demo's figure. Raises Fault with place and remedy."""
    folder = course.options["demos"]
    names = demo_names(folder)
    if name not in names:
        raise Fault(f"没有名为 {name or '（空）'} 的演示；现有：{'、'.join(names) or '无'}")
    return draw(name, Path(folder) / (name + SUFFIX), course)


def draw(name: str, template: Path, course: Course) -> str:
    """HTML of a template with what the ledger has computed under `name`. Raises Fault with place and remedy."""
    run = course.ledger["demos"].get(name)
    if run is None or run.get("status") != "ran":
        reason = run.get("error") if run else None
        raise Fault(f"{name} 的数据{'没有算出来：' + reason if reason else '还没有计算（未执行 / NOT EXECUTED）'}")
    try:
        return environment(str(template.parent)).get_template(template.name).render(
            run["data"], data=run["data"], record=partial(recorded, course=course)
        )
    except Exception as error:  # whatever a template does wrong, the page stands
        raise Fault(f"{_place(error, template)}: {error}；请改好模板") from error


def recorded(spec: str, course: Course) -> dict:
    """{"value", "unit", "device"} of FILE#KEY in docs/evidence/, for a template. Raises LookupError."""
    name, _, key = spec.partition("#")
    file = course.ledger["evidence"].get(name, {})
    if key not in file.get("figures", {}):
        raise LookupError(f"记录 {spec} 不在 docs/evidence/ 里")
    return file["figures"][key] | {"device": file["environment"]["device"]}


def _place(error: Exception, template: Path) -> str:
    """file:line of the innermost template frame of an error."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{_shown(error.filename or template)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
    return f"{_shown(frames[-1].filename)}:{frames[-1].lineno}" if frames else f"{_shown(template)}:1"


def _shown(path: str | Path) -> str:
    """The path from where the build was started, if it lies below."""
    path = Path(path).resolve()
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else str(path)


def plain(title: str) -> str:
    """A title without Markdown's marks, for an attribute."""
    return html.unescape(re.sub(r"[*`$]|</?[A-Za-z][^<>]*>", "", title)).strip()


class Demo(Block):
    """`<div class="demo">…body…<course-demo id="demo-NAME" name="NAME"><figure aria-label="…">…</figure></course-demo></div>`"""

    NAME = "demo"
    ARGUMENT = None  # a missing name is said in place

    def on_create(self, parent: etree.Element) -> etree.Element:
        self.name, self.title = split_title(self.argument or "")
        box = etree.SubElement(parent, "div", {"class": "demo"})
        if self.title:
            etree.SubElement(box, "p", {"class": "demo__title"}).text = self.title
        return box

    def on_end(self, block: etree.Element) -> None:
        try:
            figure = render(self.name, self.md.course)
        except Fault as fault:
            LOG.warning("演示 %s：%s", self.name, fault)
            box = etree.SubElement(block, "div", {"class": "course-problems", "role": "alert"})
            etree.SubElement(box, "p").text = AtomicString(f"✗ {fault}")
            return
        element = etree.SubElement(block, "course-demo", {"id": f"demo-{self.name}", "name": self.name})
        label = plain(self.title) or self.name
        etree.SubElement(element, "figure", {"aria-label": label}).text = AtomicString(self.md.htmlStash.store(figure))


def extend(md: Markdown, course: Course) -> None:
    register(md, Demo)
