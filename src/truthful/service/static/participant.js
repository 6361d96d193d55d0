// A participant's pages: what she said is shown to her before anything is sent, a slider beside each field for numbers,
// and a receipt code that can be copied and printed. Without this program the pages work as well.

/** The state of the page in which she sees what she said. */
const REVIEW = "review";

/** The number that somebody typed, in her language's signs or plainly, as the service reads it; null if it is none. */
export function readNumber(text, { decimal, group }) {
  const words = text.trim().replaceAll("\u2212", "-").replace(/[ \u00a0\u202f]/g, "");
  const [point, comma] = [decimal, group].map((sign) => `\\${sign}`);
  const local = new RegExp(`^[+-]?(\\d{1,3}(${comma}\\d{3})+|\\d+)(${point}\\d*)?$`);
  const plain = local.test(words) ? words.replaceAll(group, "").replace(decimal, ".") : words;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) && Number.isFinite(Number(plain)) ? Number(plain) + 0 : null;
}

/** A number with her language's decimal sign. */
const shown = (value, { decimal }) => String(value).replace(".", decimal);

/** What is wrong with what was typed into a box; nothing if it is a number in its range. */
function problem(box, typed, value) {
  const { empty, notNumber, outside, low, high } = box.dataset;
  if (!typed) return empty;
  const said = value === null ? notNumber : value < Number(low) || value > Number(high) ? outside : "";
  return said.replace("{typed}", typed);
}

/** The number in a box, or undefined once the box says what is wrong with it. */
function check(box, signs) {
  const field = box.querySelector(".typed");
  const [typed, value] = [field.value.trim(), readNumber(field.value, signs)];
  const wrong = box.querySelector(".error");
  wrong.textContent = problem(box, typed, value);
  wrong.hidden = !wrong.textContent;
  field.setAttribute("aria-invalid", String(!wrong.hidden));
  field.setAttribute("aria-describedby", `${field.id}-range${wrong.hidden ? "" : ` ${wrong.id}`}`);
  return wrong.hidden ? value : undefined;
}

/** A slider that says nothing until it is touched, and then what the field says. */
function link(box, signs) {
  const [field, slider] = [box.querySelector(".typed"), box.querySelector("[type=range]")];
  slider.parentElement.hidden = false;
  const follow = () => {
    const value = readNumber(field.value, signs);
    slider.parentElement.classList.toggle("untouched", value === null);
    if (value !== null) slider.value = value;
    if (!problem(box, field.value.trim(), value)) check(box, signs); // takes back what was wrong
  };
  slider.addEventListener("input", () => {
    field.value = shown(slider.value, signs);
    follow();
  });
  field.addEventListener("input", follow);
  follow();
}

/** Show what she said in place of the question, as a page of its own that leads back. */
function review(ask, confirm, said) {
  for (const [name, { value, words }] of Object.entries(said)) {
    confirm.elements[name].value = value;
    confirm.querySelector(`[data-said=${name}]`).textContent = words;
  }
  history.pushState(REVIEW, "");
  show(ask, confirm, true);
}

/** Either the question, or what was said. */
function show(ask, confirm, reviewing) {
  ask.hidden = reviewing;
  confirm.hidden = !reviewing;
  const heading = document.getElementById("heading");
  heading.dataset.question ??= heading.textContent;
  heading.textContent = reviewing ? heading.dataset.review : heading.dataset.question;
  heading.focus();
}

function askInThePage(form, confirm) {
  const signs = form.dataset;
  const boxes = [...form.querySelectorAll(".box")];
  form.noValidate = boxes.length > 0 && !form.querySelector("[type=radio]");
  boxes.forEach((box) => link(box, signs));
  for (const note of form.querySelectorAll("[data-without-scripts]")) note.hidden = true;
  for (const note of form.querySelectorAll("[data-with-scripts]")) note.hidden = false;
  form.addEventListener("submit", (event) => {
    const chosen = form.querySelector("[type=radio]:checked");
    if (form.querySelector("[type=radio]") && !chosen) return; // the service says what is missing
    event.preventDefault();
    const said = chosen ? { answer: { value: chosen.value, words: chosen.dataset.said } } : {};
    for (const box of boxes) {
      const value = check(box, signs);
      if (value !== undefined) said[box.querySelector(".typed").name] = { value, words: shown(value, signs) + box.dataset.unit };
    }
    const wrong = boxes.find((box) => !box.querySelector(".error").hidden);
    if (wrong) wrong.querySelector(".typed").focus();
    else review(form, confirm, said);
  });
  confirm.querySelector("#correct").addEventListener("click", () => history.back());
  addEventListener("popstate", (event) => show(form, confirm, event.state === REVIEW));
  if (history.state === REVIEW) history.replaceState(null, ""); // read again: nothing is there to be confirmed
}

function keepTheCode(tools) {
  tools.hidden = false;
  tools.querySelector("#copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(tools.dataset.code);
    tools.querySelector("[role=status]").textContent = tools.dataset.copied;
  });
  tools.querySelector("#print").addEventListener("click", () => print());
}

/** A page that answers a form takes her own address: who comes back to it, or reads it again, sends nothing again. */
function takeAddress(told) {
  history.replaceState(history.state, "", told.dataset.address);
}

if (typeof document !== "undefined") {
  const [ask, confirm, tools] = ["ask", "confirm", "keep-code"].map((id) => document.getElementById(id));
  if (ask && confirm) askInThePage(ask, confirm);
  if (tools) keepTheCode(tools);
  const told = document.querySelector("[data-address]");
  if (told) takeAddress(told);
}
