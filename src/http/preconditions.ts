/**
 * The strong entity tag of a resource's version (RFC 9110, section 8.8.3): version 3 is `"3"`, quotes included.
 *
 * @throws RangeError when `version` is no non-negative safe integer: a rounded one would name another state.
 */
export function etagOf(version: number): string {
  if (!Number.isSafeInteger(version) || version < 0) {
    throw new RangeError(`Not a version: ${version}`);
  }
  return `"${version}"`;
}

/**
 * Whether `If-Match` lets the request through (RFC 9110, section 13.1.1). Tags are compared strongly (section
 * 8.8.3.2): a weak tag matches nothing, and neither does a header that is malformed anywhere, so that a client
 * with a broken condition gets 412 and never an unconditional write.
 *
 * @param header the field value, several lines joined by commas; undefined (no condition) always holds, so a
 *   route that requires the header asks for it first (428).
 * @param currentEtag the resource's present tag; undefined when there is no such resource, where only a missing
 *   header holds.
 */
export function ifMatchHolds(header: string | undefined, currentEtag: string | undefined): boolean {
  if (header === undefined) return true;
  const tags = parseEntityTags(header);
  if (tags === undefined || currentEtag === undefined) return false;
  return tags === '*' || (!isWeak(currentEtag) && tags.includes(currentEtag));
}

/**
 * Whether `If-None-Match` lets the request through (RFC 9110, section 13.1.2): true when no listed tag matches.
 * Where it does not hold, GET and HEAD answer 304, other methods 412. Tags are compared weakly: `W/"1"` and
 * `"1"` are the same.
 *
 * @param header the field value, several lines joined by commas. Undefined holds, and so does a malformed one:
 *   it names no tag that could match.
 * @param currentEtag the resource's present tag; undefined when there is no such resource, where it always holds.
 */
export function ifNoneMatchHolds(header: string | undefined, currentEtag: string | undefined): boolean {
  if (header === undefined || currentEtag === undefined) return true;
  const tags = parseEntityTags(header);
  if (tags === undefined) return true;
  return tags !== '*' && !tags.some((tag) => opaqueOf(tag) === opaqueOf(currentEtag));
}

const isWeak = (tag: string): boolean => tag.startsWith('W/');
const opaqueOf = (tag: string): string => (isWeak(tag) ? tag.slice(2) : tag);

/** `#entity-tag` or `*`; undefined when malformed. Empty list elements are skipped (RFC 9110, section 5.6.1.2). */
function parseEntityTags(header: string): '*' | string[] | undefined {
  // Three small expressions moved along by hand, each without a choice to come back to: one expression for the
  // whole list would backtrack in quadratic time over long runs of blanks. Node gives obs-text as U+0080 to U+00FF.
  const blanks = /[ \t]*/y;
  const entityTag = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/y;
  let at = 0;
  const skipBlanks = (): void => {
    blanks.lastIndex = at;
    blanks.test(header);
    at = blanks.lastIndex;
  };

  skipBlanks();
  if (header[at] === '*') {
    at += 1;
    skipBlanks();
    return at === header.length ? '*' : undefined;
  }

  const tags: string[] = [];
  while (at < header.length) {
    entityTag.lastIndex = at;
    const tag = entityTag.exec(header)?.[0];
    if (tag !== undefined) {
      tags.push(tag);
      at += tag.length;
      skipBlanks();
    }
    if (at === header.length) break;
    if (header[at] !== ',') return undefined;
    at += 1;
    skipBlanks();
  }
  return tags.length === 0 ? undefined : tags;
}
