// The thin part that all demos share: controls -> events -> `next` -> picture, for the skeleton that the page carries.
//
// In a skeleton: [data-field=NAME] inputs, selects and check boxes; [data-preset]; buttons [data-do=RESET|BACK|STEP|PLAY];
// and [data-fill="NAME=TEXT&…"]; [data-seek] range; [data-stride] select; [data-link]; .demo-say; .demo-errors; form[data-challenge] with fields named
// "guess" and an <output>. All but .demo-say may be missing.

import { comma, initial, kib, next, number, playStride, si } from "./model.js";

const PERIOD = 700; // ms between the steps of a play
const WRITTEN = 400; // ms after the last change until the address is rewritten

/** Start a demo on its element; returns what stops it and lets go of everything. */
export function run(root, name, demo) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const find = (query) => root.querySelector(query);
  const parts = {
    say: find(".demo-say"), errors: find(".demo-errors"), preset: find("[data-preset]"), play: find("[data-do=PLAY]"),
    seek: find("[data-seek]"), stride: find("[data-stride]"), link: find("[data-link]"),
    challenge: find("[data-challenge]"), fields: [...root.querySelectorAll("[data-field]")],
  };
  const asked = fromAddress(name, demo);
  const home = location.pathname;
  let state = asked ?? initial(demo);
  let ticking, writing, view;

  function send(event) {
    const before = state;
    state = next(demo, state, event);
    if (state !== before) show(before);
  }

  function show(before) {
    if (!before || before.inputs !== state.inputs || before.t !== state.t) {
      view = demo.view(state.inputs, state.t);
      demo.draw(root, view, state);
    }
    controls(parts, demo, state, before);
    parts.say.setAttribute("aria-live", state.playing ? "off" : "polite"); // a play is told when it rests
    put(parts.say, demo.say(view));
    if (before || asked) for (const words of root.querySelectorAll("svg > desc")) put(words, demo.say(view)); // the page's is of its figure
    if (state.playing && !ticking) ticking = setInterval(() => send({ type: "TICK" }), PERIOD);
    if (!state.playing && ticking) {
      ticking = clearInterval(ticking);
      parts.say.textContent = "";
      requestAnimationFrame(() => put(parts.say, demo.say(view))); // said once, when the play ends
    }
    clearTimeout(writing);
    if (before && !state.playing) writing = setTimeout(write, WRITTEN);
  }

  function write() {
    if (location.pathname !== home) return; // the next page is on its way, and the address is its own already
    const address = toAddress(name, demo, state);
    if (parts.link) parts.link.setAttribute("href", address);
    history.replaceState(history.state, "", address);
  }

  const jump = (sign) => demo.stride?.(state.inputs, state.t, sign, parts.stride.value) ?? state.t + sign;
  const actions = {
    RESET: () => send({ type: "RESET" }),
    BACK: () => send({ type: "SEEK", t: jump(-1) }),
    STEP: () => send({ type: "SEEK", t: jump(1) }),
    PLAY: () => send({ type: state.playing ? "PAUSE" : "PLAY" }),
  };

  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.do) actions[button.dataset.do]();
    else if (button?.dataset.fill) send({ type: "FILL", texts: Object.fromEntries(new URLSearchParams(button.dataset.fill)) });
    else if (button?.dataset.fix) {
      const field = find(`[data-field="${button.dataset.fix}"]`);
      send({ type: "SET", name: button.dataset.fix, text: button.value });
      field?.focus();
    }
  }, { signal });
  root.addEventListener("input", ({ target }) => {
    if (target.dataset.field) send({ type: "SET", name: target.dataset.field, text: text(target) });
    else if (target === parts.seek) send({ type: "SEEK", t: Number(target.value) });
    else if (target === parts.preset) send({ type: "PRESET", index: Number(target.value) });
    else if (target.name === "guess") send({ type: "GUESS", text: target.value });
  }, { signal });
  parts.challenge?.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ type: "CHECK" });
  }, { signal });
  const follow = () => {
    const asked = fromAddress(name, demo);
    if (!asked) return;
    const before = state;
    state = asked;
    show(before);
    root.scrollIntoView();
  };
  addEventListener("hashchange", follow, { signal });
  document.addEventListener("click", ({ target }) => { // instant navigation changes the address without that event
    if (target.closest(`a[href*="#${name}?"]`)) setTimeout(follow);
  }, { signal });

  root.dataset.state = "live";
  if (asked) root.scrollIntoView();
  show();
  if (parts.link) parts.link.setAttribute("href", toAddress(name, demo, state));
  return () => {
    stopping.abort();
    clearInterval(ticking);
    clearTimeout(writing);
    delete root.dataset.state;
  };
}

/** Controls follow the state; a field that is being written in keeps its text. */
function controls(parts, demo, state, before) {
  const n = demo.steps(state.inputs);
  for (const field of parts.fields) {
    if (field.type === "range") continue; // the demo's own drawing sets it
    const draft = state.drafts[field.dataset.field];
    if (field.type === "checkbox") field.checked = draft === "true";
    else if (field.type === "radio") field.checked = field.value === draft;
    else if (field.value !== draft) field.value = draft;
    const wrong = Object.hasOwn(state.errors, field.dataset.field);
    field.setAttribute("aria-invalid", String(wrong));
  }
  if (parts.seek) {
    parts.seek.max = String(n - 1);
    parts.seek.value = String(state.t);
    parts.seek.setAttribute("aria-valuetext", `第 ${comma(state.t + 1)} 步，共 ${comma(n)} 步`);
  }
  if (parts.play) {
    const stride = playStride(n);
    put(parts.play, (state.playing ? "暂停" : "播放") + (stride > 1 ? `（每次 ${comma(stride)} 步）` : "")); // as wide in both
    parts.play.setAttribute("aria-pressed", String(state.playing));
  }
  if (parts.preset) {
    const now = demo.presets.findIndex((one) =>
      Object.entries({ ...demo.presets[0].inputs, ...one.inputs }).every(([name, value]) => String(value) === String(state.inputs[name])));
    parts.preset.value = now < 0 ? "" : now; // the reader's own
  }
  if (parts.errors && before?.errors !== state.errors) complain(parts.errors, state.errors);
  if (parts.challenge && before?.verdict !== state.verdict) judge(parts.challenge, state.verdict);
}

/** The first fault in its reserved place, with a button for each text that would do. */
function complain(place, errors) {
  const [name, wrong] = Object.entries(errors)[0] ?? [];
  place.replaceChildren(...(wrong ? [`✗ ${wrong.message}`] : []));
  for (const offer of wrong?.fixes ?? []) {
    const [fix, words] = [offer].flat();
    const button = document.createElement("button");
    const shown = words ?? `改成 ${number(fix) >= 1e4 ? comma(number(fix)) : fix}`;
    Object.assign(button, { type: "button", value: fix, textContent: shown });
    button.dataset.fix = name;
    place.append(" ", button);
  }
}

function judge(form, verdict) {
  const told = form.querySelector("output");
  told.dataset.result = verdict?.right === undefined ? "none" : verdict.right ? "right" : "wrong";
  put(told, !verdict ? "" : verdict.right === undefined ? verdict.text : `${verdict.right ? "✓ 对。" : "✗ 不对。"}${verdict.text}`);
  if (verdict?.link) {
    const link = document.createElement("a");
    Object.assign(link, { href: verdict.link.hash, textContent: verdict.link.text });
    told.append(link);
  }
}

/** A text into an element, only when it changed: screen readers hear each change. */
export function put(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/** Markup into the skeleton's [data-part=NAME], only when it changed. Numbers and words of ours only, never a reader's. */
export function fill(root, name, markup) {
  const part = root.querySelector(`[data-part="${name}"]`);
  if (part.markup !== markup) part.innerHTML = part.markup = markup;
}

/** Into the skeleton's [data-part=NAME], or the cells of a part of a table, one value for each in order or one for all:
 * a path's `d`, bytes of a <data>, attributes ("text": words), words. */
export function paint(root, parts) {
  for (const [name, values] of Object.entries(parts)) {
    const found = root.querySelectorAll(`[data-part=${name}]`);
    const cells = found[0].rows ? [...found[0].querySelectorAll("td")].map((cell) => cell.firstElementChild ?? cell) : found;
    cells.forEach((part, k) => {
      const value = Array.isArray(values) ? values[k] : values;
      if (part.tagName === "path") part.setAttribute("d", value || "");
      else if (part.tagName === "DATA") {
        part.value = value;
        put(part, value ? ("kib" in part.dataset ? kib : si)(value) : "无");
      } else if (typeof value === "object") {
        for (const [key, to] of Object.entries(value)) key === "text" ? put(part, to) : part.setAttribute(key, to);
      } else put(part, String(value));
    });
  }
}

/** [data-show="A B"] is there where A and B hold, hidden else. */
export function reveal(root, holds) {
  for (const part of root.querySelectorAll("[data-show]")) part.toggleAttribute("hidden", !part.dataset.show.split(" ").every((one) => holds[one]));
}

/** A class on those parts, by their number, that it is due to. */
export function mark(root, query, name, due) {
  root.querySelectorAll(query).forEach((part, k) => part.classList.toggle(name, due(k)));
}

/** A length or place in a drawing: at most two decimals. */
export function unit(value) {
  return Math.round(value * 100) / 100;
}

/** From values between low and high, others clamped, to places between from and to. */
export function logScale(low, high, from, to) {
  const at = (value) => Math.log10(value / low) / Math.log10(high / low);
  return (value) => unit(from + (to - from) * Math.min(Math.max(at(value), 0), 1));
}

function text(field) {
  if (field.dataset.power) return String(field.dataset.power ** field.value); // a slider over powers
  return field.type === "checkbox" ? (field.checked ? "true" : "") : field.value;
}

// --- the address: #tiling?S=1024&t=38, what differs from the first preset only ---

function toAddress(name, demo, state) {
  const first = initial(demo);
  const words = Object.keys(demo.fields).flatMap((key) => {
    const value = demo.fields[key].show(state.inputs[key]);
    return value === first.drafts[key] ? [] : [`${key}=${encodeURIComponent(value)}`];
  });
  if (state.t !== first.t || words.length) words.push(`t=${state.t}`);
  return words.length ? `#${name}?${words.join("&")}` : `#demo-${name}`;
}

function fromAddress(name, demo) {
  const [head, query] = location.hash.slice(1).split("?");
  if (head !== name || query === undefined) return null;
  const asked = Object.fromEntries(new URLSearchParams(query));
  const texts = Object.fromEntries(Object.entries(asked).filter(([key]) => Object.hasOwn(demo.fields, key)));
  const filled = next(demo, initial(demo), { type: "FILL", texts });
  return next(demo, filled, { type: "SEEK", t: Number(asked.t ?? 0) });
}
