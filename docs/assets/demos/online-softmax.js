// Softmax read block by block: m is a ruler, and changing it rescales all that was measured with the old one.
// compute = snippets.online_softmax_frame.frame

import { choice, comma, fault as wrong, flag, integer, KEPT, number, plain, sig } from "./lib/model.js";
import { fill, put, unit } from "./lib/element.js";

// How many scores there may be, and how large; then the phases of a block's turn, and the end.
const [MOST, LIMIT] = [64, 1e4];
const [FIND, RESCALE, ADD, DIVIDE] = [0, 1, 2, 3];

// --- the model ---

const total = (numbers) => numbers.reduce((sum, one) => sum + one, 0);
const dot = (p, v) => total(p.map((one, i) => one * v[i]));
const weight = (x, m) => Math.exp(x - (m === -Infinity ? 0 : m));

/** The data, NaN and infinities as numbers; x may hold "-inf". */
function work({ x, v, block_size, fault = null }) {
  x = x.map((one) => (one === "-inf" ? -Infinity : one));
  const height = fault === "no_guard" ? (one, m) => Math.exp(one - m) : weight;
  let [top, l, o, bars, blocks, one_pass] = [-Infinity, 0, 0, [], []];
  let m = fault === "no_maximum" ? 0 : top;
  for (let k = 0; k * block_size < x.length; k++) {
    const part = (side, from = k * block_size) => side.slice(from, (k + 1) * block_size);
    const [own, values, seen, old, lower] = [part(x), part(v), part(v, 0), m, top];
    top = Math.max(top, ...own);
    if (fault !== "no_maximum") m = top;
    const correction = fault === "no_correction" ? 1 : height(old, m);
    const e = own.map((one) => height(one, m));
    const [sum_e, sum_ev] = [total(e), dot(e, values)];
    [l, o] = [l * correction + sum_e, o * correction + sum_ev];
    bars = [...bars.map((one) => one * correction), ...e];
    const due = part(x, 0).map((one) => weight(one, top));
    const right = { m: top, l: total(due), o: dot(due, seen) };
    const prefix = right.o / (right.l || 1);
    one_pass = { ...right, ratio: prefix };
    const ratio = !fault && !l ? 0 : o / l;
    const rounding = (1e-12 * dot(due, seen.map(Math.abs))) / (right.l || 1) + 1e-300;
    blocks.push({
      k, x: own, v: values, e, sum_e, sum_ev, m, correction, l, o, ratio, bars, due, prefix,
      due_correction: weight(lower, top), agrees: Math.abs(ratio - prefix) <= rounding,
    });
  }
  const { ratio } = blocks.at(-1);
  return { x, v, block_size, fault, blocks, m, l, o, ratio, one_pass, difference: Math.abs(ratio - one_pass.ratio) };
}

/** Every block's turn and the one-pass result. Same as snippets.online_softmax_frame.frame. */
export const compute = (inputs) => plain(work(inputs));

/** Numbers, parted by commas, spaces or brackets. */
function list(label, also = "") {
  const asked = `填 ${MOST} 个以内的数${also}。${KEPT}`;
  return {
    show: (values) => values.map(String).join(", ").replaceAll("-Infinity", "-inf"),
    parse(text) {
      const words = text.normalize("NFKC").split(/[\s,;、()[\]]+/).filter(Boolean);
      if (!words.length) throw wrong(`${label} 是空的；${asked}`);
      if (words.length > MOST) {
        throw wrong(`${label} 收到 ${words.length} 个，最多 ${MOST}；${KEPT}`, [[words.slice(0, MOST).join(), `只留前 ${MOST} 个`]]);
      }
      return words.map((word, k) => {
        if (also && /^[-−](inf|infinity|∞)$/i.test(word)) return -Infinity;
        const value = number(word);
        const near = Math.min(Math.max(value, -LIMIT), LIMIT);
        if (near === value) return value;
        const which = `${label} 的第 ${k + 1} 个“${word.slice(0, 12)}”`;
        if (Number.isNaN(value)) throw wrong(`${which}不行；${asked}`);
        throw wrong(`${which}太大，绝对值最多 ${comma(LIMIT)}；${KEPT}`, [[words.with(k, near).join(), `改成 ${near}`]]);
      });
    },
  };
}

export const fields = {
  x: list("x", "，或表示掩码的 -inf"),
  v: list("v"),
  block_size: integer("每块个数", 1, MOST),
  fault: choice("故意弄坏", [null, "no_correction", "no_maximum", "no_guard"]),
  reversed: flag,
};

const tens = ({ length }) => Array.from({ length }, (_, i) => 10 * (i + 1));
const many = tens({ length: 24 });

export const presets = [
  { inputs: { x: [1, 2, 3, 4], v: [10, 20, 30, 40], block_size: 2, fault: null, reversed: false }, t: 6 },
  { inputs: { x: [4, 1, 3, 2] } },
  { inputs: { x: [1000, 1001, 1002, 1003] } },
  { inputs: { x: [-Infinity, -Infinity, 1, 2] } },
  { inputs: { x: many.map((one) => ((7 * one) % 240) / 40), v: many, block_size: 4 } },
];

export const steps = ({ x, block_size }) => 3 * Math.ceil(x.length / block_size) + 1;

export function check({ x, v, block_size }) {
  const n = x.length;
  if (n !== v.length) {
    const fitted = fields.v.show([...v, ...tens(x).slice(v.length)].slice(0, n));
    return { v: wrong(`x 有 ${n} 个，v 有 ${v.length} 个，要一样多；${KEPT}`, [[fitted, `v ${v.length > n ? "只留前" : "补到"} ${n} 个`]]) };
  }
  return block_size > n ? { block_size: wrong(`每块 ${block_size} 个，但只有 ${n} 个分数；${KEPT}`, [String(n)]) } : {};
}

export function view(inputs, t) {
  const [x, v] = [inputs.x, inputs.v].map((side) => (inputs.reversed ? side.toReversed() : side));
  const data = work({ ...inputs, x, v });
  const [n, K] = [steps(inputs), data.blocks.length];
  const k = Math.min(Math.floor(t / 3), K - 1);
  const none = { m: data.fault === "no_maximum" ? 0 : -Infinity, l: 0, o: 0, bars: [], due: [] };
  return { data, t, n, k, phase: t < 3 * K ? t % 3 : DIVIDE, row: data.blocks[k], before: data.blocks[k - 1] ?? none };
}

/** Four digits; with a power of ten where a number is very small or large. */
function show(value) {
  const size = Math.abs(value);
  if (!size || size === Infinity || Number.isNaN(size) || (size >= 1e-4 && size < 1e7)) return sig(value);
  const [digits, power] = value.toExponential(1).replace("-", "−").replace("+", "").split("e");
  return `${digits}×10${power.replace(/./g, (one) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[one] ?? "⁻")}`;
}

/** A score as the reader wrote it, unless that is long. */
const short = (value) => (String(value).length < 8 ? String(value).replace("-", "−") : show(value));

/** How a block's o / l compares with one pass over what was read. */
function verdict({ agrees, l, ratio, prefix, due }) {
  if (agrees) return l ? "✓ 相同，只差舍入" : "0/0 无定义，约定取 0";
  if (l === 0) return `✗ 0/0${due.some(Boolean) ? "：eˣ 下溢" : " 无定义"}`;
  if (!Number.isNaN(ratio)) return `✗ 差 ${show(Math.abs(ratio - prefix))}`;
  return l === Infinity ? "✗ ∞/∞：eˣ 溢出" : "✗ NaN × 0 仍是 NaN";
}

export function say({ data: { fault }, t, n, k, phase, row, before }) {
  const { correction, due_correction, ratio, prefix } = row;
  const [old, now] = [before.m, row.m].map(short);
  const ruler = fault === "no_maximum" ? "却不减它：尺子一直是 0" : old === now ? `尺子仍是 ${old}` : `尺子由 ${old} 换成 ${now}`;
  const kept = Number.isNaN(before.l) ? "NaN 还是 NaN" : correction ? "比例不变" : before.l ? "小得下溢成 0" : "旧账里本来只有 0";
  const factor = !k ? (Number.isNaN(correction) ? "−∞−(−∞) 得 NaN，旧账成了 NaN" : "旧账是空的，不用换算")
    : fault === "no_correction" ? `忘了修正：旧的 ℓ 和 o 本该乘 ${show(due_correction)}${due_correction === 1 ? "，这次看不出来" : ""}`
      : `旧的 ℓ 和 o 都乘 ${show(correction)}，${kept}`;
  const told = `o/ℓ=${show(ratio)}，一遍算是 ${show(prefix)}。${verdict(row)}`;
  const words = [`第 ${k} 块最大的是 ${short(Math.max(...row.x))}，${ruler}`, factor, `加上第 ${k} 块，此刻 ${told}`, `唯一的一次除法，${told}`];
  return `第 ${t + 1}/${n} 步：${words[phase]}。`;
}

export function challenge({ block_size }, guess) {
  const x = fields.x.parse(guess);
  if (x.length <= block_size) throw wrong(`每块 ${block_size} 个，这里只有一块，没有旧账要修正；至少写 ${block_size + 1} 个。`);
  const asked = { x, v: tens(x), block_size, fault: "no_correction", reversed: true };
  const run = (reversed) => {
    const { agrees, ratio, prefix } = view({ ...asked, reversed }, 3 * MOST).row;
    return [agrees, `忘修正得 ${show(ratio)}，应是 ${show(prefix)}`];
  };
  const [[right, text], [hidden, turned]] = [run(false), run(true)];
  if (!right) return { right, text: `${text}。想想修正什么时候恰好是 1。` };
  if (hidden) return { right, text: `${text}；倒过来读也看不出来。` };
  const texts = Object.entries(asked).map(([name, value]) => [name, fields[name].show(value)]);
  const link = { hash: `#online-softmax?${new URLSearchParams([...texts, ["t", 3 * MOST]])}`, text: "看倒序" };
  return { right, text: `${text}。可是倒过来读，${turned}：错露出来了。`, link };
}

// --- the picture ---

const [LEFT, RIGHT, BASE, TALL] = [22, 296, 162, 126];
// The line of o / l.
const [RAIL, FROM, TO] = [242, 60, 240];
const words = (x, y, text, classes = "") => `<text class="${classes}" x="${unit(x)}" y="${unit(y)}">${text}</text>`;
const line = (classes, d) => `<path class="${classes}" d="${d}" />`;
const within = (x) => Math.min(Math.max(x, FROM), TO);
// Of an element, the inputs and heights of its last picture.
const drawn = new WeakMap();

export function draw(root, view, { inputs }) {
  const { data: { fault }, k, phase, row, before } = view;
  Object.assign(root.querySelector(".online-softmax").dataset, { phase, fault, agrees: phase < ADD || row.agrees });
  const heights = [];
  fill(root, "bars", bars(view, heights) + rail(view));
  fill(root, "ghost", fault ? "应有的高度" : "换算前的高度");
  fill(root, "rows", rows(view));
  const [old, m] = [short(before.m), short(row.m)];
  const pair = (now, between) => `<span class="text-q">${old}</span>${between}<span class="text-kv">${now}</span>`;
  fill(root, "max", `max(${pair(short(Math.max(...row.x)), ", ")})`);
  fill(root, "power", `e<sup>${pair(row.m < 0 ? "(" + m + ")" : m, "−")}</sup>`);
  const told = { m, verdict: phase < ADD ? `等第 ${k} 块加完再比` : verdict(row) };
  for (const one of root.querySelectorAll("[data-n]")) {
    const { n, of } = one.dataset;
    put(one, told[n] ?? show((of ? before : row)[n]));
  }
  const current = `softmax__${["find", "rescale", "add", "divide"][phase]}`;
  for (const line of root.querySelectorAll(".softmax__code li")) line.ariaCurrent = line.classList.contains(current) ? "step" : null;
  const last = drawn.get(root);
  drawn.set(root, { inputs, heights });
  if (last?.inputs !== inputs || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  root.querySelectorAll(".softmax__bar").forEach((bar, i) => {
    const from = last.heights[i] ?? 0;
    if (from === heights[i] || !heights[i]) return;
    bar.animate({ transform: [`scaleY(${from / heights[i]})`, "none"] }, { duration: 450, easing: "ease-out" });
  });
}

/** Bars, their ghosts and labels (`digits` of them, where there is room), and the blocks below; adds to `heights`. */
function bars({ data: { x, fault, blocks, block_size }, k, phase, row, before }, heights) {
  const [slot, old] = [(RIGHT - LEFT) / x.length, before.bars.length];
  const digits = x.length > 8 ? 0 : x.length > 4 ? 2 : 4;
  const now = phase === FIND ? before : row;
  const changed = now === row && row.correction !== 1 && old && !fault;
  const label = (bar) => (bar >= 1e6 && bar < Infinity ? show(bar).replace(/.*×/, "") : bar > 0 && bar < 1e-3 ? "≈0" : sig(bar, digits));
  const rect = (classes, mid, width, height) =>
    `<rect class="${classes}" x="${unit(mid - slot * width / 2)}" y="${unit(BASE - height)}" width="${unit(slot * width)}" height="${unit(height)}" />`;
  let ruler = short(row.m);
  if (now !== row && before.m !== row.m) ruler = `${short(before.m)} → ${ruler}`;
  let picture = words(RIGHT, 12, `尺子 m=${ruler}`, "at-end demo-strong");
  if (changed && !digits) picture += words(LEFT, 12, `旧账 ×${show(row.correction)}`, "at-start text-q");
  x.forEach((score, i) => {
    const [mid, role] = [LEFT + slot * (i + 0.5), i < old ? "q" : "kv"];
    if (digits) picture += words(mid, BASE + 16, `${digits > 2 ? "x=" : ""}${short(score)}`);
    if (i >= old && phase < ADD) return;
    const [bar, due] = [now.bars[i], now.due[i]];
    const height = TALL * Math.min(bar || 0, 1);
    heights.push(height);
    const broken = fault && !(Math.abs(bar - due) < 1e-9);
    const ghost = TALL * (broken ? due : changed && i < old ? before.bars[i] : 0);
    picture += rect(`softmax__bar fill-${role}${broken ? " demo-dim" : ""}`, mid, 0.6, height);
    if (ghost) picture += rect(`demo-ghost line-${broken ? "error" : "q"}`, mid, 0.72, ghost);
    if (bar > 1.001) picture += line("softmax__fall softmax__over", `M${mid} ${BASE - TALL + 26}v-18m-3.5 4l3.5 -4l3.5 4`);
    if (!digits) return;
    const above = BASE - height - 5;
    picture += words(mid, above, `${broken ? "✗" : ""}${label(bar)}`, `text-${broken ? "error" : role}`);
    if (broken || !ghost) return;
    if (ghost - height > 34) picture += line("softmax__fall line-q", `M${mid} ${BASE - ghost + 4}V${above - 13}m-3.5 -4l3.5 4l3.5 -4`);
    picture += words(mid, Math.min(BASE - ghost - 5, above - 14), `×${label(row.correction)}`, "text-q");
  });
  for (const block of blocks) {
    const [start, wide] = [LEFT + slot * block.k * block_size, slot * block.x.length];
    const role = block.k < k ? "q" : block.k === k ? "kv" : "s";
    if (block.k !== k && wide < 12) continue;
    const pad = Math.min(6, wide / 6);
    picture += line(`softmax__brace line-${role}`, `M${start + pad} ${BASE + 23}v5H${start + wide - pad}v-5`);
    if (block.k !== k && (wide < 100 || slot * block_size < 100)) continue;
    picture += words(within(start + wide / 2), BASE + 44, `块 ${block.k}${block.k > k ? "" : "，到此 m=" + short(block.m)}`, `text-${role}`);
  }
  return picture;
}

/** The line of all v, with the online o / l (a dot) and the one-pass result (a ring) after the last whole block. */
function rail({ data: { v }, phase, row, before }) {
  const { ratio, prefix, agrees, due } = phase < ADD ? before : row;
  const [low, high] = [Math.min(...v), Math.max(...v)];
  const at = (value) => (high > low ? FROM + ((TO - FROM) * (value - low)) / (high - low) : 150);
  const picture = line("softmax__base", `M${FROM} ${RAIL}H${TO}` + v.map((one) => `M${at(one)} ${RAIL - 4}v8`).join(""))
    + words(FROM - 12, RAIL + 4, `v ${short(low)}`, "at-end") + words(TO + 12, RAIL + 4, short(high), "at-start");
  if (!due.some(Boolean)) return picture + words(150, RAIL - 13, "还没有可看的分数", "text-muted");
  const [role, sound] = [agrees ? "o" : "error", Number.isFinite(ratio)];
  const dot = sound ? line(`softmax__gap line-${role}`, `M${at(ratio)} ${RAIL}H${at(prefix)}`) + `<circle class="fill-${role}" cx="${at(ratio)}" cy="${RAIL}" r="4.5" />` : "";
  return `${picture}<circle class="softmax__ring" cx="${at(prefix)}" cy="${RAIL}" r="8" />${dot}`
    + words(within(at(prefix)), RAIL + 24, `一遍算 ${show(prefix)}`)
    + words(sound ? within(at(ratio)) : 150, RAIL - 13, `${agrees ? "" : "✗ "}在线 ${show(ratio)}`, `demo-strong text-${role}`);
}

/** Rows of the table, eight at most: those round the block being read. */
function rows({ data: { blocks }, k, phase }) {
  const first = Math.max(0, Math.min(k - 4, blocks.length - 8));
  return blocks.slice(first, first + 8).map((row) => {
    const x = row.x.slice(0, 3).map(short).join(", ") + (row.x.length > 3 ? ", …" : "");
    const after = `${show(row.prefix)} ${row.agrees ? "✓" : "✗"}`;
    const cells = [x, short(row.m), ...[row.correction, row.l, row.o, row.ratio].map(show), after].join("</td><td>");
    return `<tr data-at="${row.k < k ? "past" : row.k > k ? "" : phase}"><th scope="row">${row.k}</th><td>${cells}</td></tr>`;
  }).join("");
}
