"""`python -m courseware.check [docs]`: print every mistake, one a line; exit status 1 if there is any."""

from __future__ import annotations

import sys
from pathlib import Path

from courseware.check import check


def main(arguments: list[str]) -> int:
    docs = Path(arguments[0] if arguments else "docs")
    if not docs.is_dir():
        print(f"{docs}:1: 没有这个文件夹；请在仓库根目录运行，或写出页面所在的文件夹", file=sys.stderr)
        return 2
    problems = check(docs)
    for problem in problems:
        print(problem)
    print(f"检查完毕：{len(problems)} 处错误" if problems else "检查完毕：没有错误", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
