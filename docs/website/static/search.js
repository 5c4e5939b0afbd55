// The search box: names.js is loaded when somebody first looks for something, from the site itself.
"use strict";

const MOST = 12;
const root = document.documentElement.dataset.root;
const form = document.querySelector(".search");
const input = form.querySelector("input");
const list = form.querySelector(".found");

function load() {
  if (load.done) return;
  load.done = true;
  const script = document.createElement("script");
  script.src = `${root}static/names.js`;
  script.onload = show;
  document.head.append(script);
}

// Earlier is better: a name that is what was typed, then one that begins with it, then one that has it inside.
function rank(name, wanted) {
  const text = name.toLowerCase();
  if (text === wanted) return 0;
  if (text.startsWith(wanted)) return 1;
  const at = text.indexOf(wanted);
  if (at > 0) return /\w/.test(text[at - 1]) ? 3 : 2;
  return wanted.split(/\s+/).every((word) => text.includes(word)) ? 4 : 9;
}

function found(wanted) {
  const hits = (window.siteNames || []).map((entry) => [rank(entry[0], wanted), entry]).filter(([r]) => r < 9);
  hits.sort((a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length);
  return hits.slice(0, MOST).map(([, entry]) => entry);
}

function show() {
  const wanted = input.value.trim().toLowerCase();
  list.replaceChildren();
  list.hidden = !wanted;
  if (!wanted) return;
  for (const [name, kind, page, url] of found(wanted)) {
    const link = document.createElement("a");
    link.href = root + url;
    const what = document.createElement("b");
    what.textContent = name;
    const where = document.createElement("span");
    where.textContent = page || kind;
    link.append(what, where);
    const item = document.createElement("li");
    item.append(link);
    list.append(item);
  }
  if (!list.children.length) {
    const item = document.createElement("li");
    item.className = "nothing";
    item.textContent = window.siteNames ? "Nothing of that name" : "One moment";
    list.append(item);
  }
}

form.hidden = false;
input.addEventListener("focus", load);
input.addEventListener("input", show);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
document.addEventListener("click", (event) => {
  if (!form.contains(event.target)) list.hidden = true;
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Escape") {
    list.hidden = true;
    input.blur();
  }
  const links = [...list.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!list.hidden && links.length && step && form.contains(document.activeElement)) {
    event.preventDefault();
    const at = links.indexOf(document.activeElement);
    (links[at + step] || (step < 0 ? input : links[links.length - 1])).focus();
  }
});
