"""The tables of what each kernel was compiled to: one a kernel function, one row a target."""


def one(function, registers):
    facts = {"status": "passed", "function": function, "registers": registers, "shared_bytes": 16, "spill_bytes": 0}
    return facts | {"instructions": {"mma": 2, "cp.async": 1}}


KERNELS = [
    {
        "name": "softmax",
        "compiled": {
            "sm_80": {
                "status": "passed",
                "variants": {"small": one("softmax_kernel", 20), "large": one("softmax_kernel", 60), "online": one("online_kernel", 30)},
            },
            "sm_90": {"status": "passed", "variants": {"small": one("softmax_kernel", 22)}},
            "sm_100": {"status": "not-applicable", "variants": {}},
        },
    },
    {"name": "broken", "compiled": {"sm_80": {"status": "failed", "variants": {"small": {"status": "failed"}}}}},
    {"name": "never", "compiled": {}},
]


def test_the_first_variant_of_each_function_stands_for_it(render):
    render.ledger(verification={"kernels": KERNELS})
    soup = render.soup("前文\n\n[COMPILED]\n\n后文")
    assert [(h["id"], h.text.strip("#")) for h in soup.select("h3")] == [("softmax_kernel", "softmax_kernel"), ("online_kernel", "online_kernel")]
    rows = [[[cell.text for cell in line.select("td")] for line in table.select("tbody tr")] for table in soup.select("table.report")]
    resources = ["16 B", "0 B", "mma × 2、cp.async × 1"]
    nothing = ["— 不适用", "", "", "", ""]
    assert rows == [
        [["sm_80", "small", "20", *resources], ["sm_90", "small", "22", *resources], ["sm_100", *nothing]],
        [["sm_80", "online", "30", *resources], ["sm_90", *nothing], ["sm_100", *nothing]],
    ]
    links = [a["href"] for a in soup.select("table a")]
    assert links == [f"/compiled/{page}.html" for page in ("softmax_kernel/sm_80", "softmax_kernel/sm_90", "online_kernel/sm_80")]
    assert [p.text for p in soup.find_all("p", recursive=False)] == ["前文", "后文"]


def test_without_a_compilation_it_says_why(render):
    render.ledger(verification={"kernels": KERNELS[2:]})
    assert "只有 Linux 有安装包" in render.soup("[COMPILED]").text


def test_the_report_links_to_the_page(render):
    render.ledger(verification={"kernels": KERNELS[2:]}, compiled="see.md")
    assert render.soup("[VERIFICATION]").select_one("a[href='/see.md']").text == "编译透视"
    render.ledger(verification={"kernels": KERNELS[2:]})
    assert "编译透视" not in render.soup("[VERIFICATION]").text
