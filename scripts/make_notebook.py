"""Write docs/lab-notebook.ipynb: the lab's code, taken from snippets/ as it stands there, between the texts below.

Run it after a change to one of those modules or to this file; tests/test_notebook.py compares the two.
The notebook imports nothing but the standard library and numpy, so a reader who has only that one file can run it.
The committed file holds no outputs: the build executes a copy, and that copy is what the site shows and hands out.
"""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "lab-notebook.ipynb"
PACKAGE = "snippets"

TITLE = """\
# 笔记本：注意力分块模拟器

这是第 19.12 节的小实验。只需要 Python 3.11 以上和 NumPy（`pip install numpy`），不需要 GPU，也不需要别的文件。
从上到下逐格运行：先是课程自己的代码，由仓库 `snippets/` 的文件原样取来（只去掉了文件之间的 import）；然后做五个实验；最后是四道留给你写的练习。

约定：S 是序列长度，d 是每个头的维度；只算一个头。分数 S = Q Kᵀ / √d，权重 P = softmax(S)，输出 O = P V。
"""

ONLINE = """\
## 在线 softmax

`update` 吸收一小块分数：新的最大值 m，旧的 l 和 o 乘修正因子 e^(m_old − m)，再加上这一块的贡献。
`finish` 在最后除一次。`merge` 把两份状态合成一份。先运行下面两格，后面都要用到它们；头一格只是检查参数的小函数。
"""

ATTENTION = """\
## 两种写法

`standard_attention` 一次算出整个 S×S 的分数；`tiled_attention` 任何时刻只有一块 q_tile × k_tile 的分数。
两者求同一个数学式子。
"""

AGREE = """\
## 实验一：两种写法一致吗

16 × 8 的随机 Q、K、V，双精度（FP64）。差应当在 1e-16 到 1e-15 的量级，断言它小于 1e-10。
改一改种子、形状和块的大小，再运行：差会变，但总在这个量级。
"""

AGREE_CODE = """\
rng = np.random.default_rng(0)
Q, K, V = (rng.normal(size=(16, 8)) for _ in range(3))

full = standard_attention(Q, K, V)
for q_tile, k_tile in ((4, 4), (2, 8), (16, 1), (5, 3)):
    tiled = tiled_attention(Q, K, V, q_tile=q_tile, k_tile=k_tile)
    difference = np.abs(full - tiled).max()
    assert difference < 1e-10
    print(f"块 {q_tile:>2} × {k_tile}：最大差 {difference:.2e}")
"""

TRACE = """\
## 实验二：一步一步看 m、l、o

`trace` 记下每一块算完后的状态。下面只看第 0 个行块的第 0 行。m 只升不降；每一步的 o / l
都恰好是只看已读的键时的注意力输出，断言检查的就是这一点。
"""

TRACE_CODE = """\
steps = []
tiled_attention(Q, K, V, q_tile=4, k_tile=4, trace=steps)

previous = -np.inf
for step in (step for step in steps if step.i == 0):
    seen = 4 * (step.j + 1)
    assert np.allclose(step.o / step.l[:, None], standard_attention(Q[:4], K[:seen], V[:seen]))
    correction = np.exp(previous - step.m[0])
    print(f"j={step.j}  m={step.m[0]:.4f}  修正={correction:.4f}  l={step.l[0]:.4f}  o[0]={step.o[0, 0]:+.4f}")
    previous = step.m[0]
"""

SHAPES = """\
## 实验三：零头与因果掩码

长度不必是块大小的整数倍：最后一块小一些就是了。因果（causal）掩码让整块都看不见的分数块不必计算，数一数省了几块。
"""

SHAPES_CODE = """\
Q, K, V = rng.normal(size=(13, 8)), rng.normal(size=(17, 8)), rng.normal(size=(17, 8))
for causal in (False, True):
    steps = []
    tiled = tiled_attention(Q, K, V, 4, 4, causal=causal, trace=steps)
    assert np.abs(tiled - standard_attention(Q, K, V, causal=causal)).max() < 1e-10
    print(f"causal={causal}：算了 {len(steps)} 块")
    for i in range(4):
        row = {step.j for step in steps if step.i == i}
        print("   ", "".join("■" if j in row else "·" for j in range(5)))
"""

MEMORY = """\
## 实验四：中间结果真的没有成形吗

`tracemalloc` 能看见 NumPy 申请的内存。序列长度翻倍，标准写法的峰值约变为 4 倍，分块写法约变为 2 倍。
这是 CPU 上数组的内存，不是 GPU 显存，也不是速度。
"""

MEMORY_CODE = """\
import tracemalloc


def peak(function, *arguments):
    tracemalloc.start()
    function(*arguments)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


for S in (512, 1024, 2048):
    Q, K, V = (rng.normal(size=(S, 64)) for _ in range(3))
    full, tiled = peak(standard_attention, Q, K, V), peak(tiled_attention, Q, K, V, 64, 64)
    assert tiled < S * S * 8 < full
    print(f"S={S:>4}：一个 S×S 是 {S * S * 8 / 2**20:5.1f} MiB；标准 {full / 2**20:6.1f}，分块 {tiled / 2**20:4.1f} MiB")
"""

BITS = """\
## 实验五：精确，不等于逐位相同

“精确”是说算法没有近似。浮点加法的次序变了，末几位就可能不同。把 dtype 换成 `np.float32`，差会大约变成 1e-7 的量级：
那是 FP32 的舍入，不是算法的误差。
"""

BITS_CODE = """\
for dtype in (np.float64, np.float32):
    Q, K, V = (rng.normal(size=(256, 64)).astype(dtype) for _ in range(3))
    full, tiled = standard_attention(Q, K, V), tiled_attention(Q, K, V, 32, 32)
    assert np.abs(full - tiled).max() < 100 * np.finfo(dtype).eps
    print(f"{dtype.__name__}：最大差 {np.abs(full - tiled).max():.1e}，逐位相同的元素占 {(full == tiled).mean():.0%}")
"""

EXERCISES = """\
## 练习

每道题有一个空函数和一句检查。检查会说“通过”“还没写”，或者错在哪里。可以用上面的 `scores`、`update`、`merge`、
`finish` 和 `EMPTY`。先运行下面这一格，它是检查用的代码。
"""

SPLIT = """\
### 练习 1：分段再合并（split-KV）

把键和值切成 `parts` 段（长度总能整除），每段各自从 `EMPTY` 算出状态，再合并。返回输出 O。
解码时只有一行查询，就靠这样切分来让更多的处理器有活干。
"""

SPLIT_CODE = """\
def split_attention(Q, K, V, parts):
    return None  # 写在这里


print(check_split(split_attention))
"""

KV_OUTER = """\
### 练习 2：换一个循环顺序

FlashAttention 第一版把 K/V 放在外层循环，Q 放在内层。写出这个顺序，返回 `(O, visits)`，`visits` 是依次访问的
`(i, j)`。想一想：这时每个行块的状态要存多久？
"""

KV_OUTER_CODE = """\
def kv_outer_attention(Q, K, V, q_tile, k_tile):
    return None  # 写在这里


print(check_kv_outer(kv_outer_attention))
"""

WINDOW = """\
### 练习 3：滑动窗口

第 r 行查询只看第 r − window + 1 到 r 个键（含两端，Q 与 K 一样长）。返回 O。整块都在窗口外的分数块不该去算。
"""

WINDOW_CODE = """\
def window_attention(Q, K, V, window, q_tile, k_tile):
    return None  # 写在这里


print(check_window(window_attention))
"""

LSE = """\
### 练习 4：每行只留一个数

FlashAttention-2 的前向除了 O，每行只留一个 lse = m + log l。返回 `(O, lse)`，lse 的形状是 `(len(Q),)`。
检查会用 exp(S − lse) 还原权重 P：有了它，反向传播就能一块一块地把 P 重算出来，不必保存。
"""

LSE_CODE = """\
def attention_with_lse(Q, K, V, q_tile, k_tile):
    return None  # 写在这里


print(check_lse(attention_with_lse))
"""


def cells():
    """The notebook's cells in order: (id, kind, source); an id never changes, so neither does a link to the cell."""
    return [
        ("title", "markdown", TITLE),
        ("online-softmax", "markdown", ONLINE),
        ("checks-code", "code", module("checks")),
        ("online-softmax-code", "code", module("online_softmax")),
        ("attention", "markdown", ATTENTION),
        ("attention-code", "code", module("attention")),
        ("agree", "markdown", AGREE),
        ("agree-code", "code", AGREE_CODE),
        ("trace", "markdown", TRACE),
        ("trace-code", "code", TRACE_CODE),
        ("shapes", "markdown", SHAPES),
        ("shapes-code", "code", SHAPES_CODE),
        ("memory", "markdown", MEMORY),
        ("memory-code", "code", MEMORY_CODE),
        ("bits", "markdown", BITS),
        ("bits-code", "code", BITS_CODE),
        ("exercises", "markdown", EXERCISES),
        ("exercises-code", "code", module("lab")),
        ("split", "markdown", SPLIT),
        ("split-code", "code", SPLIT_CODE),
        ("kv-outer", "markdown", KV_OUTER),
        ("kv-outer-code", "code", KV_OUTER_CODE),
        ("window", "markdown", WINDOW),
        ("window-code", "code", WINDOW_CODE),
        ("lse", "markdown", LSE),
        ("lse-code", "code", LSE_CODE),
    ]


def module(name):
    """Text of snippets/NAME.py as a cell: its first line names the file; imports of the package and marks are left out.

    In a notebook all cells share one namespace, so what a module imports from another is there already. That holds for
    `from snippets.other import name` alone; ValueError at any other import of the package.
    """
    text = (ROOT / PACKAGE / f"{name}.py").read_text("utf-8")
    lines = text.splitlines()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if _of_package(node):
            lines[node.lineno - 1 : node.end_lineno] = [None] * (node.end_lineno - node.lineno + 1)
    docstring = tree.body[0]
    kept = [line for line in lines[docstring.end_lineno :] if line is not None and "--8<--" not in line]
    about = [f"# {PACKAGE}/{name}.py"] + [f"# {line}".rstrip() for line in ast.get_docstring(tree).splitlines()]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(about + kept))  # an import taken out leaves its blank line


def _of_package(node):
    """Whether the node imports from the package; ValueError when a notebook could not do without that import."""
    if isinstance(node, ast.Import):
        mine = any(alias.name.split(".")[0] == PACKAGE for alias in node.names)
        plain = False
    elif isinstance(node, ast.ImportFrom):
        mine = (node.module or "").split(".")[0] == PACKAGE or node.level > 0
        plain = "." in (node.module or "") and not any(alias.asname or alias.name == "*" for alias in node.names)
    else:
        return False
    if mine and not plain:
        raise ValueError(f"第 {node.lineno} 行：笔记本只能展开 from {PACKAGE}.模块 import 名字；请改成这种写法")
    return mine


def notebook():
    """The whole notebook as nbformat 4.5 has it, without outputs."""
    return {
        "cells": [_cell(*cell) for cell in cells()],
        "metadata": {
            "generator": "scripts/make_notebook.py",
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def paragraphs(text):
    """The text with each paragraph on one line: a line break between Chinese characters would be shown as a space.

    Beside Latin letters a space stays, as everywhere in these texts, unless a full-width punctuation mark is next to it.
    """
    text = re.sub(r"(?<=[^\x00-\x7f])\n(?=[^\x00-\x7f])|(?<=[，。；：、）”])\n(?=[^\n])", "", text)
    return re.sub(r"(?<=[^\n])\n(?=[^\n])", " ", text)


def _cell(identifier, kind, source):
    source = (paragraphs(source) if kind == "markdown" else source).strip("\n")
    cell = {"cell_type": kind, "id": identifier, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def text():
    """The file's bytes as text: the same sources always give the same."""
    return json.dumps(notebook(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
