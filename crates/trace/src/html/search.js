// Search: which records match a text. Words are joined by "and"; `fence:`, `kind:`, `lane:`, `name:` and `value:` look
// in one place, a plain word looks in names, kinds, lanes, groups and fences. Quotes keep blanks together.

const matches = { text: "", ids: new Int32Array(0), is: new Uint8Array(T.n), at: -1 };

function words(text) {
  const found = [];
  for (const [, field, quoted, plain] of text.matchAll(/(?:(fence|kind|lane|name|value):)?(?:"([^"]*)"?|(\S+))/gi)) {
    const word = (quoted ?? plain).toLowerCase();
    if (word || field) found.push({ field: field?.toLowerCase() ?? "", word });
  }
  return found;
}

/** Which of `texts` contain the word, one byte each. */
const containing = (texts, word) => Uint8Array.from(texts, (t) => (t.toLowerCase().includes(word) ? 1 : 0));

function tester({ field, word }) {
  if (field === "value") return (i) => T.fence[i] >= 0 && valueText(i) === word;
  const everywhere = field === "";
  const none = (texts) => new Uint8Array(texts.length);
  const kinds = everywhere || field === "kind" ? containing(meta.kinds, word) : none(meta.kinds);
  const names = everywhere || field === "name" ? containing(meta.names, word) : none(meta.names);
  const fences = everywhere || field === "fence" ? containing(meta.fences, word) : none(meta.fences);
  const places = lanes.map((l) => `${l.group} / ${l.name}`);
  const inLane = everywhere || field === "lane" ? containing(places, word) : none(places);
  return (i) => kinds[T.kind[i]] || names[T.name[i]] || inLane[T.lane[i]] || (T.fence[i] >= 0 && fences[T.fence[i]]);
}

/** Finds what matches `text`; an empty text matches nothing and ends the search. Returns the number of matches. */
function findMatches(text) {
  const tests = words(text).map(tester), ids = [];
  matches.text = tests.length ? text : "";
  matches.is.fill(0);
  matches.at = -1;
  for (let i = 0; tests.length && i < T.n; i++) {
    if (!tests.every((test) => test(i))) continue;
    matches.is[i] = 1;
    ids.push(i);
  }
  matches.ids = Int32Array.from(ids);
  return ids.length;
}
