"""The demos in Chromium: time of a step at the largest setting, size of their scripts, shift of the layout while played.

Run: .venv/bin/python scripts/benchmark_demos.py (make benchmark does). It builds the site into a temporary folder.
A step's time is that of the click, the drawing and the layout that it brings about, on the machine that runs this.
Ends with 1 when a limit is broken.
"""

from __future__ import annotations

import functools
import http.server
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from install_browser import find
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
STEP_MS = 16  # one frame of a display at 60 Hz
SCRIPT_BYTES = 60_000
STEPS = 120
LARGEST = {  # demo: its page, and the setting that asks most of it
    "attention-io": ("io/", {"S": "131072", "d": "32", "dtype_bytes": "4", "heads": "1024", "sram_kib": "16"}),
    "online-softmax": ("online-softmax/", {"x": ",".join(map(str, range(64))), "v": ",".join(map(str, range(64))), "block_size": "1"}),
    "roofline": ("roofline/", {"S": "100000", "d": "256", "B_r": "1"}),
    "tiling": ("tiling/", {"S": "131072", "B_r": "1", "B_c": "1", "causal": "true", "order": "fa1"}),
    "triton-block": ("triton/", {"n": "1000000000", "block_size": "1", "pid": "500000000"}),
}
RUN = """async ([name, steps]) => {
  const root = document.querySelector(`course-demo[name=${name}]`);
  const press = kind => { root.querySelector(`[data-do=${kind}]`).click(); root.getBoundingClientRect(); };
  const seek = root.querySelector("[data-seek]"), times = [];
  for (let k = 0; k < steps; k++) {
    if (k % 40 === 0) { // from places all over the run
      seek.value = Math.floor(seek.max * k / steps);
      seek.dispatchEvent(new Event("input", {bubbles: true}));
      root.getBoundingClientRect();
    }
    const start = performance.now();
    press("STEP");
    times.push(performance.now() - start);
    await new Promise(requestAnimationFrame);
  }
  return {times, steps: Number(seek.max) + 1, nodes: root.querySelectorAll("*").length};
}"""
SHIFTS = """window.shifted = 0; new PerformanceObserver(list => list.getEntries().forEach(entry => { window.shifted += entry.value }))
  .observe({type: "layout-shift", buffered: true});"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """One line a request would bury the table."""


def main() -> int:
    faults, browser_path = [], find()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        subprocess.run([sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)], cwd=ROOT, check=True, capture_output=True)
        size = sum(path.stat().st_size for path in [*site.glob("assets/demos/**/*.js"), site / "assets/js/demos.js"])
        print(f"scripts of all demos: {size:,} bytes (limit {SCRIPT_BYTES:,})")
        faults += ["scripts"] * (size > SCRIPT_BYTES)
        handler = functools.partial(Quiet, directory=str(site))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
            print(f"{'demo':<16}{'steps':>16}{'nodes':>8}{'median ms':>11}{'p95 ms':>9}{'shift':>9}{'first visit':>13}")
            for name, (page, inputs) in LARGEST.items():
                row = measure(browser, f"http://127.0.0.1:{server.server_port}/{page}", name, inputs)
                print(f"{name:<16}{row['steps']:>16,}{row['nodes']:>8}{row['median']:>11.2f}{row['p95']:>9.2f}{row['shift']:>9.4f}{row['first']:>13.4f}")
                faults += [name] * (row["median"] > STEP_MS or row["shift"] > 0)
            browser.close()
            server.shutdown()
    print("over the limits: " + ", ".join(faults) if faults else "all within the limits")
    return bool(faults)


def measure(browser: Browser, url: str, name: str, inputs: dict[str, str]) -> dict:
    """Median and 95th percentile of a step, steps and nodes; layout shift of a play on a warm page, and of the first visit."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="zh-CN")
    page = context.new_page()
    page.add_init_script(SHIFTS)
    live = f"course-demo[name={name}][data-state=live]"
    page.goto(url)
    page.wait_for_selector(live, state="attached")
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(500)
    first = page.evaluate("window.shifted")
    page.reload()
    page.wait_for_selector(live, state="attached")
    page.locator(live).scroll_into_view_if_needed()
    page.evaluate("name => document.querySelector(`course-demo[name=${name}] [data-do=PLAY]`).click()", name)
    page.wait_for_timeout(4000)
    shift = page.evaluate("window.shifted")
    page.evaluate(
        """([name, inputs]) => {
          for (const [key, text] of Object.entries(inputs)) {
            const field = document.querySelector(`course-demo[name=${name}] [data-field=${key}]:not([type=range])`);
            if (field.type === "checkbox") field.checked = text === "true"; else field.value = text;
            field.dispatchEvent(new Event("input", {bubbles: true}));
          }
        }""",
        [name, inputs],
    )
    told = page.locator(f"{live} .demo-errors").inner_text()
    assert not told, f"{name}: {told}"
    run = page.evaluate(RUN, [name, STEPS])
    times = sorted(run["times"])
    context.close()
    return {
        "median": statistics.median(times), "p95": times[int(0.95 * len(times))], "steps": run["steps"],
        "nodes": run["nodes"], "shift": shift, "first": first,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
