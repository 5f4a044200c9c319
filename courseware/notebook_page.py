"""A notebook's page as the site shows it: mkdocs-jupyter's HTML without what it inlines, in our pages' own markup.

mkdocs-jupyter puts some 600 KB of styles and scripts (one of which names a CDN) into the page, every cell's source a
second time for a copy button that needs those scripts, and anchors from which Chinese has been dropped. What is left
is styled in docs/assets/css/notebook.css; the copy button is the theme's, as on any code of the site.
"""

from __future__ import annotations

import re
from html import escape, unescape

from markdown.extensions.toc import nest_toc_tokens, unique
from pymdownx.slugs import slugify

from courseware.dialect.code import without_plain_tokens

# In code and output `<` is escaped, so no pattern that starts with a tag can match there.
REPLACED = [
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in [
        (r"<(style|script)\b[^>]*>.*?</\1>|<!--.*?-->", ""),
        (r'<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>', ""),
        (r'<div class="clipboard-copy-txt"[^>]*>[^<]*</div>', ""),  # the cell's source again
        (r'<div class="jp-Collapser\b[^>]*>\s*</div>', ""),
        (r'<div class="jp-(?:Input|Output)Prompt\b[^>]*>\s*</div>', ""),  # of cells without a number
        (r'(<div\b[^>]*) tabindex="0"', r"\1"),  # on every cell; the theme gives one to what really scrolls
        (r'(<div\b[^>]*) id="cell-id=', r'\1 id="cell-'),  # `=` is no part of a selector: the copy button would fail
        (r'<div class="highlight-ipynb[^"]*"><pre>(?:<span></span>)?(.*?)</pre>', r'<div class="highlight"><pre><code>\1</code></pre>'),
        (r'(<div class="jp-RenderedText\b[^"]*)("[^>]*>\s*<pre)>(.*?)</pre>', r"\1 course-output\2><code>\3</code></pre>"),
    ]
]
HEADING = re.compile(r'<h(?P<level>[1-6]) id="[^"]*">(?P<text>.*?)<a class="anchor-link"[^>]*>.*?</a></h\1>', re.DOTALL)


def tidy(content: str, name: str) -> tuple[str, list[dict]]:
    """(HTML, table of contents) of a notebook's page; `name` is the file that mkdocs-jupyter copies beside it.

    The table of contents is nested as Python-Markdown's toc_tokens, for `mkdocs.structure.toc.get_toc`. Anchors are
    the headings' words, as on our pages; under the title stands a link to the notebook itself.
    """
    for pattern, replacement in REPLACED:
        content = pattern.sub(replacement, content)
    content = without_plain_tokens(content)
    headings, ids, slug = [], set(), slugify(case="lower")

    def heading(match: re.Match) -> str:
        text = re.sub(r"<[^>]+>", "", match["text"]).strip()
        anchor = unique(slug(unescape(text), "-"), ids)
        headings.append({"level": int(match["level"]), "id": anchor, "name": text})
        link = f'<a class="headerlink" href="#{escape(anchor)}" title="本节的链接">#</a>'
        return f'<h{match["level"]} id="{escape(anchor)}">{match["text"]}{link}</h{match["level"]}>'

    content = HEADING.sub(heading, content)
    source = f'<p class="notebook-source"><a href="{escape(name)}" download>下载这份笔记本（{escape(name)}）</a></p>'
    head, end, rest = content.partition("</h1>")
    return (head + end + source + rest if end else source + content).strip(), nest_toc_tokens(headings)
