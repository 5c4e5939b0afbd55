// Under each result of a search: the place at which its words stand, as docs/site/snippets.py has stored it.
(() => {
  let texts;
  const load = () => texts ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = `${document.documentElement.dataset.content_root}_static/snippets.js`;
    script.onload = () => done(SNIPPETS);
    document.head.append(script);
  });
  const asked = () => {
    const fields = [...document.querySelectorAll('input[name="q"]')];
    const field = fields.find((one) => one === document.activeElement) ?? fields.find((one) => one.value);
    const stemmer = new Stemmer();
    return [...new Set(splitQuery(field?.value.toLowerCase() ?? "").map((word) => stemmer.stemWord(word)))];
  };
  const has = (text, words) => words.filter((word) => text.toLowerCase().includes(word));

  const show = (item, pages, words) => {
    const [, page, anchor] = item.querySelector("a").getAttribute("href").match(/^([^?#]*)\.html[^#]*#?(.*)$/);
    const parts = pages[page.replace(/^(\.\.?\/)+/, "")] ?? [];
    const hits = ([, title, text]) => has(`${title} ${text}`, words).length;
    const most = parts.reduce((best, part) => hits(part) > hits(best) ? part : best, parts[0]);
    const text = ((anchor && parts.find(([id]) => id === anchor)) || most)?.[2];
    if (!text) return;
    const [longest] = has(text, words).sort((a, b) => b.length - a.length);
    const at = longest ? text.toLowerCase().indexOf(longest) : 0;
    const start = at < 90 ? 0 : text.indexOf(" ", at - 80) + 1;
    const end = start + 200 < text.length ? text.lastIndexOf(" ", start + 200) : text.length;
    const line = item.appendChild(document.createElement("p"));
    line.className = "snippet";
    line.append(start ? "… " : "");
    for (const piece of text.slice(start, end).split(/([\p{L}\p{N}_]+)/u)) {
      const hit = words.some((word) => piece.toLowerCase().startsWith(word));
      line.append(hit ? Object.assign(document.createElement("mark"), {textContent: piece}) : piece);
    }
    line.append(end < text.length ? " …" : "");
  };

  new MutationObserver((changes) => {
    const added = changes.flatMap((change) => [...change.addedNodes]);
    const items = added.filter((node) => node.matches?.("ul.search > li"));
    if (items.length) load().then((pages) => items.forEach((item) => show(item, pages, asked())));
  }).observe(document.documentElement, {childList: true, subtree: true});
})();
