/* Live feedback while planning: the form is sent again when a field changes, and its result replaces the old one.
   Without this script the button does the same. */
"use strict";
const form = document.getElementById("plan");
const working = document.getElementById("working");
let asked = 0;

async function workOut() {
  const mine = ++asked;
  const query = new URLSearchParams(new FormData(form));
  working.hidden = false;
  try {
    const answer = await fetch(`${form.action}?${query}`);
    if (answer.redirected) location.reload(); // signed out meanwhile
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("result");
    if (mine !== asked) return;
    if (found) {
      document.getElementById("result").replaceChildren(...found.childNodes);
      history.replaceState(null, "", `?${query}`);
    }
  } catch {
    /* The button still works. */
  } finally {
    if (mine === asked) working.hidden = true;
  }
}

form.addEventListener("change", workOut);
