// "Compute it here": fetch the release and one's own receipt, recompute the payment, put both numbers side by side.
import { check } from "./check.js";

const box = document.getElementById("check");
const format = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 9 });

async function fetched(address) {
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function say(what) {
  for (const text of box.querySelectorAll("[data-said]")) text.hidden = text.dataset.said !== what;
}

async function run() {
  say("busy");
  try {
    const [release, receipt] = await Promise.all([fetched(box.dataset.release), fetched(box.dataset.receipt)]);
    const found = check(release, receipt);
    for (const cell of box.querySelectorAll("[data-here]")) {
      const value = cell.dataset.here.split(".").reduce((part, key) => part[key], found);
      const taken = found.taken && "taken" in cell.dataset;
      cell.textContent = taken ? box.dataset.taken : format.format(value);
    }
    document.getElementById("check-numbers").hidden = false;
    say(found.verified ? "agrees" : found.sound === false ? "unsound" : "differs");
  } catch {
    say("failed");
  }
}

document.getElementById("check-off").hidden = true;
box.hidden = false;
document.getElementById("check-run").addEventListener("click", run);
