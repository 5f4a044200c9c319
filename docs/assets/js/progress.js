// Remembers in this browser alone which sections were read and which answers given, by keys of their content, and says
// so in the overview. The item's name has the site's path in it: another course on the same host has its own.

const progress = (() => {
  const name = `${new URL("../..", document.currentScript.src).pathname}.progress`;

  function load() {
    try {
      const { version, kept } = JSON.parse(localStorage.getItem(name));
      return version === 1 ? { ...kept } : {};
    } catch {
      return {}; // nothing yet, nothing readable, or no storage: a reader without a past
    }
  }

  function save(kept) {
    try {
      localStorage.setItem(name, JSON.stringify({ version: 1, kept }));
    } catch {
      // full or blocked: the page works, it only forgets
    }
  }

  return {
    /** "begun" or "read" for a section, "right A,C" or "wrong B" for a quiz, else "". */
    get: (key) => String(load()[key] ?? ""),
    set: (key, value) => save({ ...load(), [key]: value }), // undefined drops the entry
    clear: () => save({}),
  };
})();

/** Calls start for each page: now or soon, and after each of Material's instant navigations. */
function onPage(start) {
  if (typeof document$ !== "undefined") document$.subscribe(start);
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}

// A section is begun once its heading has been in view, and read when its end has stayed in view for a moment. The top
// of the window does not count as an end: there stands the next heading when a link has jumped over the section.
const MOMENT = 1000; // ms
const JUMPED = "-140px 0px 0px";
let release = () => {};

function watch() {
  release();
  const headings = [...document.querySelectorAll(".md-content h2")];
  const after = document.querySelector(".md-content .footnote, .md-footer");
  const keys = new Map(headings.map((heading, n) => [headings[n + 1] ?? after, heading.dataset.key]));
  const timers = new Map();
  const begun = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !progress.get(target.dataset.key)) progress.set(target.dataset.key, "begun");
    }
  });
  const ended = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        clearTimeout(timers.get(target));
        if (isIntersecting) timers.set(target, setTimeout(finish, MOMENT, keys.get(target)));
      }
    },
    { rootMargin: JUMPED },
  );
  for (const heading of headings) if (heading.dataset.key) begun.observe(heading); // an empty one has none
  for (const end of keys.keys()) ended.observe(end);
  release = () => {
    for (const observer of [begun, ended]) observer.disconnect();
    for (const timer of timers.values()) clearTimeout(timer);
  };
}

function finish(key) {
  if (progress.get(key) === "begun") progress.set(key, "read");
}

function showOverview() {
  const nav = document.querySelector(".progress");
  if (!nav) return;
  const total = [0, 0, 0, 0];
  for (const page of nav.querySelectorAll("[data-quizzes]")) {
    const sections = [...page.querySelectorAll("[data-key]")];
    const quizzes = page.dataset.quizzes.split(" ").filter(Boolean);
    const isRead = (section) => progress.get(section.dataset.key) === "read";
    for (const section of sections) section.lastElementChild.textContent = isRead(section) ? "✓ 读过" : "";
    const right = quizzes.filter((key) => progress.get(key).startsWith("right"));
    const counts = [sections.filter(isRead).length, sections.length, right.length, quizzes.length];
    page.querySelector(".progress__count").textContent = tell(counts);
    counts.forEach((count, n) => (total[n] += count));
  }
  nav.querySelector(".progress__total").textContent = tell(total);
}

function tell([read, sections, right, quizzes]) {
  return `读过 ${read}/${sections} 节${quizzes ? `，答对 ${right}/${quizzes} 题` : ""}`;
}

/** The button asks once more, in place; a press elsewhere or leaving it by keyboard takes the question back. */
function pressed(event) {
  const button = document.querySelector(".progress button");
  if (!button) return;
  const here = event.type === "click" && event.target === button;
  const sure = here && button.dataset.asked === "true";
  if (!here && !button.dataset.asked) return;
  if (sure) progress.clear();
  button.dataset.asked = here && !sure ? "true" : "";
  button.textContent = button.dataset.asked ? "再按一次，确认清除" : "清除本站的学习记录";
  button.nextElementSibling.textContent = sure ? "学习记录已清除。" : here ? "清除之后不能恢复。" : "";
  showOverview();
}

for (const type of ["click", "focusout"]) document.addEventListener(type, pressed);
addEventListener("storage", showOverview); // another tab reads on
onPage(watch);
onPage(showOverview);
