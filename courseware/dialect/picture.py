"""`![说明](assets/pictures/NAME.svg.j2)`: a picture drawn into the page; its words are text, its colours the page's.

Contract: an image that is all its paragraph holds and whose target is a template becomes
`<figure class="picture"><div>…drawing…</div><figcaption>说明</figcaption></figure>`. The template is looked up by its
file name in the option `pictures`; it gets the ledger's demos[NAME.svg]["data"] and what `demo` gives its templates. A
fault is said in place and logged.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree
from pathlib import Path, PurePosixPath

from markdown import Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from courseware.dialect.course import LOG, Course
from courseware.dialect.demo import Fault, draw

SUFFIX = ".svg.j2"


def picture_names(folder: Path | str) -> list[str]:
    """Pictures that have a template, as file names."""
    return sorted(path.name for path in Path(folder).glob(f"*{SUFFIX}"))


def extend(md: Markdown, course: Course) -> None:
    """After `inline` has made the images, before MkDocs reads the links."""
    md.treeprocessors.register(PictureProcessor(md), "course_pictures", 6)


class PictureProcessor(Treeprocessor):
    def run(self, root: etree.Element) -> None:
        for paragraph in list(root.iter("p")):
            image = paragraph[0] if len(paragraph) == 1 else None
            source = image.get("src", "") if image is not None and image.tag == "img" else ""
            if source.endswith(SUFFIX) and not ((paragraph.text or "") + (image.tail or "")).strip():
                self._replace(paragraph, PurePosixPath(source).name, image.get("alt", ""))

    def _replace(self, paragraph: etree.Element, file: str, caption: str) -> None:
        """Turn the paragraph into the figure; what follows it stays."""
        tail = paragraph.tail
        paragraph.clear()
        paragraph.tail = tail
        try:
            drawing = render(file, self.md.course)
        except Fault as fault:
            LOG.warning("图 %s：%s", file, fault)
            paragraph.tag, paragraph.attrib = "div", {"class": "course-problems", "role": "alert"}
            etree.SubElement(paragraph, "p").text = AtomicString(f"✗ {fault}")
            return
        paragraph.tag, paragraph.attrib = "figure", {"class": "picture"}
        etree.SubElement(paragraph, "div").text = AtomicString(self.md.htmlStash.store(drawing))
        etree.SubElement(paragraph, "figcaption").text = AtomicString(caption)


def render(file: str, course: Course) -> str:
    """The drawing of a template's file name. Raises Fault with place and remedy."""
    folder = course.options["pictures"]
    names = picture_names(folder)
    if file not in names:
        raise Fault(f"没有名为 {file} 的图；现有：{'、'.join(names) or '无'}")
    return draw(file.removesuffix(".j2"), Path(folder) / file, course)
