// What a search finds first: a name that people import, then lessons and guides, then the rest of the reference
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {}, objPrioDefault: 5,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, title, , , score, , kind]) => {
    if (!page.startsWith("reference/")) return score + 20;
    return kind === "object" && page === "reference/index" ? 3 * score : score - title.split(".").length;
  },
};
