// Brings the quizzes to life: submit, feedback, a mark on each option, redo; what was submitted is remembered
// (progress.js) and shown again. The forms are complete without it.
// No dependency, no inline handler or style, so a strict content policy lets it work; keys are the browser's own.

const MARKS = {
  hit: "✓ 选对了",
  extra: "✗ 不该选",
  missed: "○ 漏选了",
};

/** What each option earned: its letter -> "hit", "extra", "missed" or "" (rightly left alone). */
function judge(options, chosen, right) {
  return Object.fromEntries(
    options.map((letter) => {
      const [took, good] = [chosen.includes(letter), right.includes(letter)];
      return [letter, took && good ? "hit" : took ? "extra" : good ? "missed" : ""];
    }),
  );
}

function feedback(marks, right) {
  const all = Object.values(marks);
  if (all.every((mark) => mark === "hit" || mark === "")) return ["right", `✓ 回答正确。答案是 ${right.join("、")}。`];
  const missed = all.filter((mark) => mark === "missed").length;
  const extra = all.filter((mark) => mark === "extra").length;
  const why = right.length > 1 ? `（选错 ${extra} 个，漏选 ${missed} 个）` : "";
  return ["wrong", `✗ 再想想：答案是 ${right.join("、")}${why}。解析在下面。`];
}

function show(form, result, text) {
  const region = form.querySelector(".quiz__feedback");
  region.dataset.result = result;
  region.textContent = text;
}

function clearMarks(form) {
  for (const mark of form.querySelectorAll(".quiz__mark")) mark.remove();
  for (const item of form.querySelectorAll(".quiz__options > li")) delete item.dataset.mark;
}

function inputsOf(form) {
  return [...form.querySelectorAll(".quiz__options input")];
}

function submit(form) {
  const chosen = inputsOf(form).filter((input) => input.checked).map((input) => input.value);
  const right = form.dataset.answer.split(",").filter(Boolean);
  form.querySelector(".quiz__feedback").setAttribute("aria-live", "polite");
  clearMarks(form);
  if (!right.length) return show(form, "wrong", "这道题的答案没有写对，无法判断。");
  if (!chosen.length) return show(form, "none", "还没有选；先选一项再提交。");
  progress.set(form.dataset.key, `${reveal(form, chosen, right)} ${chosen}`);
}

/** Marks and feedback of what was chosen; returns "right" or "wrong". */
function reveal(form, chosen, right) {
  const inputs = inputsOf(form);
  const marks = judge(inputs.map((input) => input.value), chosen, right);
  for (const input of inputs) {
    const kind = marks[input.value];
    if (!kind) continue;
    const mark = document.createElement("span");
    mark.className = "quiz__mark";
    mark.textContent = MARKS[kind];
    input.closest("label").querySelector(".quiz__text").append(mark);
    input.closest("li").dataset.mark = kind;
  }
  const [result, text] = feedback(marks, right);
  show(form, result, text);
  form.querySelector(".quiz__answer").open = true;
  form.querySelector(".quiz__redo").hidden = false;
  return result;
}

/** Shows what an earlier visit submitted, without announcing it again. */
function restore(form) {
  const chosen = progress.get(form.dataset.key).split(" ").at(-1).split(",");
  const inputs = inputsOf(form);
  if (!inputs.some((input) => chosen.includes(input.value))) return;
  for (const input of inputs) input.checked = chosen.includes(input.value);
  form.querySelector(".quiz__feedback").setAttribute("aria-live", "off");
  reveal(form, chosen, form.dataset.answer.split(","));
}

function redo(form) {
  form.reset();
  progress.set(form.dataset.key);
  clearMarks(form);
  show(form, "", "");
  form.querySelector(".quiz__answer").open = false;
  form.querySelector(".quiz__redo").hidden = true;
  form.querySelector(".quiz__options input").focus();
}

function start(form) {
  if (form.dataset.started) return;
  form.dataset.started = "true";
  const again = document.createElement("button");
  again.type = "button";
  again.className = "quiz__redo";
  again.textContent = "重做";
  again.hidden = true;
  form.querySelector("button[type=submit]").after(again);
  again.addEventListener("click", () => redo(form));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(form);
  });
  restore(form);
}

onPage(() => document.querySelectorAll("form.quiz").forEach(start));
