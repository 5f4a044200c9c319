"""Install the Chromium that the browser tests drive: Playwright's own where it can be downloaded, else the system's.

Prints the browser's path; exits with the reason and the remedy where none can be had.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def playwright_browser() -> str | None:
    """Path of the browser that Playwright downloaded, if it is there."""
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def system_browser() -> str | None:
    """Path of an installed Chromium or Chrome."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def find() -> str | None:
    return playwright_browser() or system_browser()


def download() -> None:
    """Playwright's own browser; with the system's libraries where we may install them."""
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    if os.geteuid() == 0:
        command.insert(4, "--with-deps")
    _try(command, seconds=300)


def install_from_distribution() -> None:
    apt = shutil.which("apt-get")
    if apt:
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        _try([*sudo, apt, "update", "-qq"], seconds=300)
        _try([*sudo, apt, "install", "-y", "-qq", "--no-install-recommends", "chromium"], seconds=600)


def _try(command: list[str], seconds: float) -> None:
    print("trying:", " ".join(command), flush=True)
    try:
        result = subprocess.run(command, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode:
            print((result.stderr or result.stdout).strip()[-600:])
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)


def main() -> None:
    for attempt in (lambda: None, download, install_from_distribution):
        attempt()
        if path := find():
            print("browser:", path)
            return
    sys.exit(
        "No Chromium: Playwright's could not be downloaded and the distribution's could not be installed (see above).\n"
        "Install Chromium or Chrome so that one of these is on PATH, then run make test again: " + ", ".join(NAMES)
    )


if __name__ == "__main__":
    main()
