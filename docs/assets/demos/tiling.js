// One moment of attention's tile loops: what lies on chip, how often each block has moved, what passed through HBM.
// compute = snippets.tiling_frame.frame

import { choice, comma, flag, integer, kib, si, sig } from "./lib/model.js";
import { paint, put, reveal, unit } from "./lib/element.js";

const RUNS = 64; // a strip is drawn from at most this many runs of blocks
const { ceil, floor, max, min } = Math;
const LARGEST = 1024; // rows of a tile
const PHASES = ["load", "compute", "store"]; // store: throw S away, keep or write O

// --- the model ---

/** Tiles, and which are computed: row tile i visits column tiles 0..last(i)-1, column tile j the row tiles from first(j). */
function tiles({ S, B_r, B_c, causal }) {
  [B_r, B_c] = [min(B_r, S), min(B_c, S)];
  const [T_r, T_c] = [ceil(S / B_r), ceil(S / B_c)];
  const last = (i) => (causal ? ceil(min((i + 1) * B_r, S) / B_c) : T_c);
  const first = (j) => (causal ? floor((j * B_c) / B_r) : 0);
  return { S, B_r, B_c, T_r, T_c, last, first };
}

/** Turns of the outer loop that end by a pair: how many, their pairs, rows of the inner operand; pairs of the next turn. */
function turns({ S, B_r, B_c, T_r, T_c, last, first }, order, pair = Infinity) {
  const fa2 = order === "fa2";
  let [outer, start, rows] = [0, 0, 0];
  for (; outer < (fa2 ? T_r : T_c); outer++) {
    const pairs = fa2 ? last(outer) : T_r - first(outer);
    if (start + pairs > pair) return { outer, start, rows, pairs };
    start += pairs;
    rows += fa2 ? min(pairs * B_c, S) : S - first(outer) * B_r;
  }
  return { outer, start, rows, pairs: 0 };
}

/** Tile (i, j) of a pair; whether it opens or ends its turn of the outer loop. */
function locate(t, order, pair) {
  const turn = turns(t, order, pair);
  const inner = pair - turn.start;
  const [i, j] = order === "fa2" ? [turn.outer, inner] : [inner + t.first(turn.outer), turn.outer];
  return { ...turn, i, j, opens: !inner, ends: inner === turn.pairs - 1 };
}

/** Counts of a moment, by block: reads of Q, K (and V) and O, writes W of O. */
function counts({ last, first }, order, { i, j, ends }, store) {
  if (order === "fa2") {
    return { Q: (r) => +(r <= i), K: (c) => max(i - first(c), 0) + (c <= j), O: () => 0, W: (r) => +(r < i + (store && ends)) };
  }
  const moved = (until) => (r) => min(last(r), j) + (r >= first(j) && r < until);
  return { Q: moved(i + 1), K: (c) => +(c <= j), O: moved(i + 1), W: moved(i + store) };
}

const clamp = (value, low, high) => min(max(value, low), high);

/** At most RUNS runs of equally many blocks: [first, last, the largest count in it], which is at an end or at or before `at`. */
function runs(n, count, at = 0) {
  const [width, found] = [ceil(n / RUNS), []];
  for (let a = 0; a < n; a += width) {
    const b = min(a + width, n) - 1;
    found.push([a, b, max(...[a, b, clamp(at, a, b), clamp(at - 1, a, b)].map(count))]);
  }
  return found;
}

function strips({ T_r, T_c }, { Q, K, O, W }, i) {
  const kv = runs(T_c, K);
  return { Q: runs(T_r, Q, i), K: kv, V: kv, O: runs(T_r, O, i), O_write: runs(T_r, W, i) };
}

const onChip = (r, c, d, bytes) => ({ Q: r * d * bytes, K: c * d * bytes, V: c * d * bytes, S: r * c * 4, O: r * d * 4, m: r * 4, l: r * 4 });
const total = (numbers) => Object.values(numbers).reduce((a, b) => a + b);

/** One loop order's whole traffic. */
function traffic(order, t, size) {
  const { start: pairs, rows: n } = turns(t, order);
  const [fa2, none] = [order === "fa2", [0, 0]];
  const [q, kv] = fa2 ? [[t.T_r, t.S], [pairs, n]] : [[pairs, n], [t.T_c, t.S]];
  const rows = [["Q", q, none], ["K", kv, none], ["V", kv, none], ["O", fa2 ? none : q, q]].map(([name, [reads, read], [writes, written]]) =>
    ({ name, reads, read_bytes: read * size, writes, write_bytes: written * size }));
  const [read_bytes, write_bytes] = ["read_bytes", "write_bytes"].map((key) => total(rows.map((one) => one[key])));
  return { order, rows, read_bytes, write_bytes, total_bytes: read_bytes + write_bytes };
}

let [key, kept] = ["", null];

/** What no step changes; the last answer is kept. */
function whole(inputs) {
  const asked = JSON.stringify(inputs);
  if (asked === key) return kept;
  const { S, d, dtype_bytes, sram_bytes, order } = inputs;
  const t = tiles(inputs);
  const pairs = turns(t, order).start;
  const peak = total(onChip(t.B_r, t.B_c, d, dtype_bytes));
  const B_c = ceil(floor(sram_bytes / dtype_bytes) / (4 * d));
  const end = locate(t, order, pairs - 1);
  key = asked;
  return (kept = {
    ...inputs, B_r: t.B_r, B_c: t.B_c, T_r: t.T_r, T_c: t.T_c, pairs, steps: 3 * pairs, visible: runs(t.T_r, t.last),
    sram_peak: peak, fits: peak <= sram_bytes, suggested: { B_r: min(B_c, d), B_c },
    naive_bytes: 4 * S * (S + d) * dtype_bytes, orders: ["fa1", "fa2"].map((one) => traffic(one, t, d * dtype_bytes)),
    final: strips(t, counts(t, order, end, true), end.i),
  });
}

/** One head after a step (0-based; null: the middle pair, its S alive). Same as snippets.tiling_frame.frame. */
export function compute({ step = null, ...inputs }) {
  const data = whole({ causal: false, ...inputs });
  const { S, d, dtype_bytes, order } = data;
  const t = tiles(data);
  step ??= 3 * floor(data.pairs / 2) + 1;
  const [pair, phase, store] = [floor(step / 3), PHASES[step % 3], step % 3 === 2];
  const place = locate(t, order, pair);
  const { i, j } = place;
  const moved = counts(t, order, place, store);
  const size = d * dtype_bytes;
  const [rows, cols] = [[i, t.B_r], [j, t.B_c]].map(([k, B]) => [k * B, min((k + 1) * B, S)]);
  const before = place.rows - t.first(j) * t.B_r; // FA1: Q and O rows of earlier turns, less those that this turn skips
  const [q, kv, written] = order === "fa2" ? [rows[1], place.rows + cols[1], rows[+(store && place.ends)]]
    : [before + rows[1], cols[1], before + rows[+store]];
  const read_bytes = { Q: q * size, K: kv * size, V: kv * size, O: order === "fa2" ? 0 : q * size };
  const reads = { Q: moved.Q(i), K: moved.K(j), V: moved.K(j), O: moved.O(i) };
  const slots = Object.entries(onChip(rows[1] - rows[0], cols[1] - cols[0], d, dtype_bytes))
    .filter(([name]) => name !== "S" || phase === "compute").map(([name, bytes]) => ({ name, bytes, reads: reads[name] ?? 0 }));
  return {
    ...data, step, pair, phase, i, j, rows, cols, slots, sram_now: total(slots.map((slot) => slot.bytes)), read_bytes,
    written_bytes: written * size, hbm_bytes: total(read_bytes) + written * size, strips: strips(t, moved, i),
  };
}

const sram = integer("SRAM（KiB）", 1, 1024);

export const fields = {
  S: integer("S", 1, 131072), d: integer("d", 8, 256), B_r: integer("B_r", 1, LARGEST), B_c: integer("B_c", 1, LARGEST),
  dtype_bytes: choice("类型", [2, 4]),
  sram_bytes: { parse: (text) => 1024 * sram.parse(text), show: (value) => String(value / 1024) },
  order: choice("循环顺序", ["fa2", "fa1"]), causal: flag,
};

const one_head = { S: 1024, d: 64, B_r: 128, B_c: 64, dtype_bytes: 2, sram_bytes: 196608, order: "fa2", causal: false };

export const presets = [
  { inputs: one_head, t: 220 },
  { inputs: { S: 16, d: 8, B_r: 4, B_c: 4, sram_bytes: 1024 } },
  { inputs: { B_r: 64, B_c: 384, order: "fa1" }, t: 73 },
  { inputs: { causal: true }, t: 109 },
  { inputs: { S: 131072, d: 128 }, t: 3145729 },
];

export const steps = (inputs) => whole(inputs).steps;

/** 步长: a step, a tile pair, or to where the next (this, the last) turn of the outer loop begins. */
export function stride(inputs, t, sign, kind) {
  if (kind !== "round") return t + (kind === "pair" ? 3 : 1) * sign;
  const turn = (pair) => locate(tiles(inputs), inputs.order, pair);
  const { start, pairs } = turn(floor(t / 3));
  return 3 * (sign > 0 ? start + pairs : t > 3 * start || !start ? start : turn(start - 1).start);
}

const SLOTS = ["Q", "K", "V", "S", "O", "m", "l"];

/** Also what moves in this step, and which moment it is: 0 load in the turn's first pair, 1 in a later one, 2 and 3
 * compute likewise, 4 store in any pair but the turn's last, 5 in that one. */
export function view(inputs, t) {
  const data = compute({ ...inputs, step: t });
  const { opens, ends } = locate(tiles(inputs), inputs.order, data.pair);
  const [phase, fa2] = [t % 3, inputs.order === "fa2"];
  const loads = phase ? [] : (fa2 ? (opens ? "QKV" : "KV") : opens ? "QKVO" : "QO").split("");
  return { ...data, asked: inputs, moment: 2 * phase + (phase < 2 ? +!opens : +ends), loads, writes: phase === 2 && (ends || !fa2), fa2 };
}

export function say({ step, steps, i, j, rows, cols, d, dtype_bytes, moment, loads, writes, fa2 }) {
  const size = ([a, b]) => (b - a) * d * dtype_bytes;
  const read = total([0, ...loads.map((name) => size("KV".includes(name) ? cols : rows))]);
  const what = moment < 2 ? `载入 ${loads.join("、")}，读 ${kib(read)}；${fa2 ? ["O、m、ℓ 从头算起", "Q、O 留在片上"][moment] : "K、V 留在片上"}`
    : moment < 4 ? "在片上算这一块 S，更新 m、ℓ、O"
    : writes ? `丢弃 S；O ${fa2 ? "除以 ℓ，" : ""}写回 ${kib(size(rows))}${fa2 ? "，只此一次" : ""}` : "丢弃 S、K、V；O 留在片上，什么也不写";
  return `第 ${comma(step + 1)}/${comma(steps)} 步，i=${i}，j=${j}：${what}。`;
}

/** Both tiles are run, with the reader's own S, d, type and B_r. */
export function challenge({ S, d, B_r, dtype_bytes }, guess) {
  const run = (r, B_c) => compute({ ...one_head, S, d, dtype_bytes, B_r: r, B_c, step: 0 }).orders[1].total_bytes;
  const [before, after, tall] = [run(B_r, 64), run(B_r, 128), run(2 * B_r, 64)];
  return {
    right: guess === (after === before ? "same" : after < before ? "half" : "double"),
    text: `改前 ${si(before)}，改后 ${si(after)}：K、V 读几遍只看 T_r。B_r 加倍才是 ${si(tall)}。`,
  };
}

// --- the picture; units: the matrix is SIDE wide at (GX, GY), strips grow away from it to DEEP ---

const [GX, GY, SIDE, BAND, DEEP, LEAST, FEW] = [60, 86, 180, 12, 40, 5, 40];
const [KV, Q, O, RIGHT] = [GY - BAND - 4, GX - BAND - 4, GX + SIDE + BAND + 4, GX + SIDE];
const ANCHORS = ["start", "middle", "middle", "middle", "end"];
const percent = (part, all) => `${unit((100 * part) / all)}%`;
const rect = (x, y, w, h) => (w > 0 && h > 0 ? `M${unit(x)} ${unit(y)}h${unit(w)}v${unit(h)}h${unit(-w)}z` : "");

export function draw(root, view) {
  const { S, T_r, T_c, causal, orders, order, naive_bytes: naive, hbm_bytes: hbm, written_bytes: written, fa2, fits, loads, writes } = view;
  const held = Object.fromEntries(view.slots.map((slot) => [slot.name, slot]));
  drawMap(root, view, held);

  const room = max(view.sram_bytes, view.sram_peak);
  const limit = percent(view.sram_bytes, room);
  const sizes = SLOTS.map((name) => held[name]?.bytes ?? 0);
  const fused = orders[+fa2].total_bytes;
  const scale = max(naive, fused);
  const [end, read] = [percent(fused, scale), percent(hbm - written, scale)];
  const moves = [0, 1, 2, 3].flatMap((k) => orders.flatMap(({ rows }) => [[rows[k].reads, rows[k].read_bytes], [rows[k].writes, rows[k].write_bytes]]));
  const { B_r } = view.suggested;
  const B_c = min(view.suggested.B_c, LARGEST);
  paint(root, {
    chip: view.sram_now, limit: view.sram_bytes, peak: view.sram_peak, all: S * S * view.dtype_bytes, width: view.dtype_bytes,
    slot: sizes, bar: sizes.map((size, k) => ({ x: percent(total([0, ...sizes.slice(0, k)]), room), width: percent(size, room) })),
    frame: { width: limit }, mark: { x1: limit, x2: limit, class: `tiling__limit tiling__limit--${fits ? "fits" : "over"}` },
    hbm, read: [...Object.values(view.read_bytes), written],
    flow: [{ width: read }, { x: read, width: percent(written, scale) }, { width: percent(naive, scale) }, { x1: end, x2: end }],
    label: [fused, naive].map((part) => ({ x: percent(part, scale), "text-anchor": ANCHORS[floor((4.99 * part) / scale)] })), total: [si(fused), si(naive)],
    turns: [T_r, T_c, T_r, T_c].map(comma), tiles: comma(T_r * T_c), skips: comma(T_r * T_c - view.pairs),
    chosen: orders.map((one) => (one.order === order ? "▶ " : "")), times: moves.map(([n]) => (n ? `（${comma(n)}）` : "")),
    bytes: [...moves.map((one) => one[1]), ...orders.flatMap((one) => [one.read_bytes, one.write_bytes]), ...orders.map((one) => one.total_bytes)],
    share: orders.map((one) => sig((100 * one.total_bytes) / naive)), suggested: `${B_r}×${B_c}`,
  });
  reveal(root, {
    fa1: !fa2, fa2, causal, dense: !causal, fits, over: !fits, worse: fused > naive, paper: view.B_r === B_r && view.B_c === B_c,
    cut: max(view.asked.B_r, view.asked.B_c) > S, skip: causal && view.visible[0][2] < 0.8 * T_c,
  });
  const words = root.querySelector(".tiling__slots").dataset; // what may happen to a slot, by a letter
  const each = (query, change) => root.querySelectorAll(query).forEach(change);
  each("[data-fa2]", (part, k) => put(part, words[part.dataset[order][view.moment]].replace("#", comma(held[SLOTS[k]]?.reads || 1))));
  each("[data-when]", (part) => (part.ariaCurrent = part.dataset.when.includes(view.moment) ? "step" : null));
  each(".tiling__ledger li", (part, k) => (part.ariaCurrent = (k < 4 ? loads.includes("QKVO"[k]) : writes) ? "step" : null));
  root.querySelector("[data-fill]").dataset.fill = `B_r=${B_r}&B_c=${B_c}`;
}

function drawMap(root, view, held) {
  const { S, B_r, B_c, T_r, T_c, i, j, rows, cols, strips, final, fa2, moment, loads, writes } = view;
  const [to, store, computes] = [SIDE / S, moment > 3, moment === 2 || moment === 3];
  const deep = (n) => (DEEP * n) / max(fa2 ? T_r : 2 * T_c, 2);
  const end = (k, B) => to * min((k + 1) * B, S);

  // strips: bars and bands, of all blocks and of the current ones; ghosts: where the bars will end
  const strip = (B, place) => (list) => list.map(([a, b, n], k) => {
    const [from, long] = [to * a * B + 0.4, max(end(b, B) - to * a * B - 0.8, 0.3)];
    const [x, y, thick] = place(n, k);
    return y ? rect(GX + from, y, long, thick) : rect(x, GY + from, thick, long);
  }).join("");
  const kv = [strip(B_c, (n) => [0, KV - deep(n), deep(n)]), strip(B_c, () => [0, KV + 2, BAND])];
  const q = [strip(B_r, (n) => [Q - deep(n), 0, deep(n)]), strip(B_r, () => [Q + 2, 0, BAND])];
  const o = [strip(B_r, (n) => [O, 0, deep(n)]), strip(B_r, () => [RIGHT + 2, 0, BAND])];
  const now = (draws, list, block) => draws.map((draw) => draw(list.filter(([a, b]) => a <= block && block <= b))).join("");
  const stairs = (list, B, point) => `M${list.flatMap(([a, b, n]) => [to * a * B, end(b, B)].map((at) => point(at, deep(n)).map(unit))).join("L")}`;

  // the tile, no smaller than one can see
  const fit = ([a, b], from) => {
    const size = max(to * (b - a), LEAST);
    return [clamp(from + (to * (a + b) - size) / 2, from, from + SIDE - size), size];
  };
  const [[x, w], [y, h]] = [fit(cols, GX), fit(rows, GY)];
  const [cx, cy, far, out] = [unit(x + w / 2), unit(y + h / 2), unit(x + w + 3), RIGHT + 2];
  const box = rect(x, y, w, h);

  const [row, col] = [to * (rows[1] - rows[0]), to * (cols[1] - cols[0])];
  const edge = view.visible.map(([, b, n]) => `H${unit(GX + end(n - 1, B_c))}V${unit(GY + end(b, B_r))}`);
  const every = (n, B, line) => (n <= FEW ? Array.from({ length: n - 1 }, (_, k) => line(end(k, B))).join("") : "");
  const [above, beside] = [`j=${j}，第 ${comma(held.K.reads)} 次`, `i=${i}`];
  const half = 3.5 * above.length + 14.5;
  const [k_in, q_in, o_in] = ["K", "Q", "O"].map((name) => loads.includes(name));
  const trips = [
    k_in && [x, KV + 2, w, BAND, 0, y - KV - 2], q_in && [Q + 2, y, BAND, h, x - Q - 2, 0],
    o_in ? [out, y, BAND, h, x - out, 0] : writes && [x, y, w, h, out - x, 0],
  ];
  paint(root, {
    bars: [kv[0](strips.K), q[0](strips.Q), o[0](strips.O)],
    writes: strip(B_r, (n, k) => [O + deep(strips.O[k][2]), 0, deep(n)])(strips.O_write),
    bands: [kv[1](strips.K), q[1](strips.Q), o[1](strips.O), o[1](strips.O_write.filter((run) => run[2]))],
    now: [now(kv, strips.K, j), now(q, strips.Q, i), now(o, strips.O, i)],
    ghosts: [
      stairs(final.K, B_c, (at, n) => [GX + at, KV - n]), stairs(final.Q, B_r, (at, n) => [Q - n, GY + at]),
      stairs(final.O_write.map(([a, b, n], k) => [a, b, n + final.O[k][2]]), B_r, (at, n) => [O + n, GY + at]),
    ],
    // thrown away: the turns before, and this one up to the tile; what a causal mask skips covers the rest
    gone: fa2 ? rect(GX, GY, SIDE, to * rows[0]) + rect(GX, GY + to * rows[0], to * cols[+store], row)
      : rect(GX, GY, to * cols[0], SIDE) + rect(GX + to * cols[0], GY, col, to * rows[+store]),
    skipped: view.causal && `M${GX} ${GY}${edge.join("")}H${RIGHT}V${GY}Z`,
    lines: every(T_r, B_r, (at) => `M${GX} ${unit(GY + at)}h${SIDE}`) + every(T_c, B_c, (at) => `M${unit(GX + at)} ${GY}v${SIDE}`),
    beams: [rect(GX, y, x - GX, h), rect(x, GY, w, y - GY)],
    flows: [
      k_in && y - GY > 12 && `M${cx} ${GY + 3}V${unit(y - 3)}m-4 -5l4 5l4 -5`,
      q_in && x - GX > 12 && `M${GX + 3} ${cy}H${unit(x - 3)}m-5 -4l5 4l-5 4`,
      RIGHT - far > 11 && (o_in ? `M${RIGHT - 3} ${cy}H${far}m5 -4l-5 4l5 4` : (writes || computes) && `M${far} ${cy}H${RIGHT - 3}m-5 -4l5 4l-5 4`),
    ],
    tile: [box, computes && box, store && box, box, store && `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8`],
    packet: trips.map((trip) => trip && rect(...trip)), size: comma(S),
    above: { x: clamp(cx, GX + half, RIGHT - half), y: KV - deep(final.K[0][2]) - 5, text: above },
    beside: { x: max(Q - deep(held.Q.reads) - 4, 7 * beside.length), y: cy + 4, text: beside },
  });

  // motion says what the picture says anyway: the tile glides to its place, blocks travel between HBM and the chip
  const tile = root.querySelector(".tiling__tile");
  const [x0, y0] = tile.dataset.at.split(" ");
  Object.assign(tile.dataset, { at: `${x} ${y}`, phase: view.phase });
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const go = (part, opacity, from, to) => part.animate([from, to].map(([dx, dy]) => ({ opacity, transform: `translate(${dx}px, ${dy}px)` })), 450);
  go(tile, 1, [x0 - x, y0 - y], [0, 0]);
  root.querySelectorAll("[data-part=packet]").forEach((part, k) => trips[k] && go(part, 0.8, [0, 0], trips[k].slice(4)));
}
