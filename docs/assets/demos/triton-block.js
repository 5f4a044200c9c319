// How Triton cuts N elements into programs, and what the mask of the last one costs.
// compute = snippets.block_grid.frame

import { comma, fault, flag, integer, KEPT, number, powerOfTwo, sig } from "./lib/model.js";
import { fill, paint, reveal, unit } from "./lib/element.js";

const MAX_BLOCK = 2 ** 20; // elements of the largest tensor that Triton accepts
const LINES = 6; // of the kernel

// --- the model ---

/** Number of programs, ⌈n / block_size⌉. */
function grid(n, block_size) {
  return Math.ceil(n / block_size);
}

/** All numbers of one program and of the grid; `pid` null means the last one. Same as snippets.block_grid.frame. */
export function compute({ n, block_size, pid = null }) {
  const programs = grid(n, block_size);
  const wasted = programs * block_size - n;
  const data = {
    n, block_size, programs, wasted, pid: null, program: null,
    wasted_share: programs ? wasted / (programs * block_size) : 0, offsets: [],
  };
  if (!programs) return data;
  const at = pid ?? programs - 1;
  const start = at * block_size;
  const [stop, live] = [start + block_size, Math.min(block_size, n - start)];
  const shown = [start, start + 1, start + 2, n - 1, n, n + 1, stop - 3, stop - 2, stop - 1];
  const inside = [...new Set(shown)].filter((one) => start <= one && one < stop).sort((a, b) => a - b);
  const program = { pid: at, start, stop, live, masked: block_size - live };
  return { ...data, pid: at, program, offsets: inside.map((offset) => ({ offset, live: offset < n })) };
}

const whole = integer("pid", 0, 1e9);
const WORDS = { 首个: () => 0, 中间: (programs) => Math.floor(programs / 2), 末个: () => null };

export const fields = {
  n: integer("N", 0, 1e9),
  block_size: integer("BLOCK_SIZE", 1, MAX_BLOCK, powerOfTwo("BLOCK_SIZE", "tl.arange 要 2 的幂")),
  pid: { parse: (text) => (Object.hasOwn(WORDS, text.trim()) ? text.trim() : whole.parse(text)), show: String },
  unmasked: flag,
};

export const presets = [
  { inputs: { n: 10_000_000, block_size: 1024, pid: "末个", unmasked: false }, t: 2 },
  { inputs: { n: 1025 }, t: 2 },
  { inputs: { n: 1000 }, t: 2 },
  { inputs: { n: 0 }, t: 2 },
];

export const steps = () => LINES;

export function check({ n, block_size, pid }) {
  const programs = grid(n, block_size);
  if (typeof pid === "string" || pid < programs) return {};
  const allowed = programs ? `只有 program 0 到 ${comma(programs - 1)}` : "N＝0 时没有 program";
  return { pid: fault(`pid＝${comma(pid)} 不存在：${allowed}。${KEPT}`, ["末个"]) };
}

export function view({ n, block_size, pid, unmasked }, t) {
  const at = typeof pid === "string" ? WORDS[pid](grid(n, block_size)) : pid;
  return { ...compute({ n, block_size, pid: n ? at : null }), unmasked, t };
}

export function say({ n, program, unmasked, t }) {
  const line = `第 ${t + 1}/${LINES} 行：`;
  if (!program) return `${line}N=0，grid 里有 0 个 program，kernel 不启动。`;
  const rest = unmasked && program.masked ? `越界 ${comma(program.masked)}` : `屏蔽 ${comma(program.masked)}`;
  return `${line}program ${program.pid}：offsets ${comma(program.start)}…${comma(program.stop - 1)}，有效 ${comma(program.live)}，${rest}。`
    + (unmasked && program.masked ? `没有 mask 时，这 ${comma(program.masked)} 条读写数组以外的地址；解释器不报错，GPU 上结果不定。` : "");
}

/** Always of the first example's N: the question on the page names it. */
export function challenge(_, guess) {
  const block_size = MAX_BLOCK;
  const { programs, wasted, wasted_share } = compute({ n: presets[0].inputs.n, block_size });
  const value = number(guess.replace(/[%％]/, ""));
  if (!Number.isFinite(value)) throw fault(`“${guess.slice(0, 24)}”不是数；填一个百分数，例如 5`);
  const truth = 100 * wasted_share;
  return {
    right: Math.abs(value - truth) <= Math.max(0.5, truth / 10),
    text: `是 ${sig(truth)}%：${comma(programs)} 个 program 共 ${comma(programs * block_size)} 条 lane，屏蔽 ${comma(wasted)} 条，仍不到一块。`,
  };
}

// --- the picture ---

const [LEFT, RIGHT, LEAST] = [2, 298, 5];
const WIDE = RIGHT - LEFT;
const { min, max } = Math;

export function draw(root, view) {
  const { n, block_size, programs, pid, wasted, unmasked, t } = view;
  const { start, stop, live, masked } = view.program ?? { start: 0, stop: 0, live: 0, masked: 0 }; // no program: most is out of sight
  const slider = root.querySelector("input[type=range][data-field=pid]");
  slider.max = max(programs - 1, 0);
  slider.value = pid ?? 0;
  slider.setAttribute("aria-valuetext", programs ? `program ${comma(pid)}，共 ${comma(programs)} 个` : "没有 program");

  const from = unit(LEFT + ((WIDE - LEAST) * pid) / max(programs, 1));
  const border = unit(LEFT + (WIDE * live) / block_size);
  const [middle, error] = [unit((border + RIGHT) / 2), unmasked ? " text-error" : ""];
  const range = `${comma(start)}…${comma(stop - 1)}`;
  const moved = unmasked ? stop - start : live;
  paint(root, {
    none: programs ? "" : "N=0：grid 里有 0 个 program", first: from < 60 ? "" : "program 0",
    chosen: { x: from < 60 ? LEFT : RIGHT, "text-anchor": from < 60 ? "start" : "end", text: `program ${pid}` },
    beam: `M${from} 33L${LEFT} 66H${RIGHT}L${unit(from + LEAST)} 33Z`, now: { x: from }, block: comma(block_size),
    live: { width: unit(border - LEFT) }, border: `M${border} 61v38`,
    masked: { x: border, width: unit(RIGHT - border), class: `block__masked${unmasked ? " block__masked--out" : ""}` },
    on: { x: unit(max((LEFT + border) / 2, 36)), text: `有效 ${comma(live)}` },
    off: { x: min(middle, 262), class: `block__off demo-strong${error}`, text: masked ? `${unmasked ? "✗ 越界" : "屏蔽"} ${comma(masked)}` : "" },
    edge: { x: min(max(border, 90), 210), text: masked ? `N=${comma(n)}` : "" }, ends: [comma(start), comma(stop - 1)],
    guard: unmasked ? "" : ", mask=mask",
    note: [
      pid ?? "不启动", programs ? range : "无", unmasked ? "去掉了" : `${comma(live)} 个真，${comma(masked)} 个假`,
      ...["读", "读", "写"].map((word) => `${word} ${comma(moved)} 个`),
    ].map((note, k) => (k === t ? `▶ ${note}` : note)),
    last: [programs - 2, programs - 1], grid: [comma(programs - 1), comma(block_size), 0, 1, comma(block_size - wasted), comma(wasted)],
    total: [comma(programs), comma(n), `${comma(wasted)}，占 ${sig(100 * view.wasted_share)}%`],
  });
  reveal(root, { some: programs, more: programs > 1 });
  root.querySelectorAll(".block__kernel li").forEach((line, k) => (line.ariaCurrent = k === t ? "step" : null));
  fill(root, "offsets", rows(view));
}

function rows({ program, offsets, unmasked }) {
  return offsets.map(({ offset, live }, k) => {
    const gap = k ? offset - offsets[k - 1].offset - 1 : 0;
    const skipped = gap ? `<tr class="demo-table__gap"><td colspan="3">⋯ 略去 ${comma(gap)} 个</td></tr>` : "";
    const [role, fate] = live ? ["q", "✓ 读写"] : unmasked ? ["error", "✗ 越界"] : ["muted", "✗ 屏蔽"];
    return `${skipped}<tr data-live="${live}"><th scope="row">${comma(offset - program.start)}</th><td>${comma(offset)}</td><td><span class="text-${role}">${fate}</span></td></tr>`;
  }).join("");
}
