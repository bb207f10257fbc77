import { problemType } from '../http/problem.js';

export const SequenceGap = problemType({
  code: 'sequence-gap',
  status: 409,
  title: 'Records are missing before these',
  underKey: 'released',
  explanation:
    'The numbers of a feed have no gaps, and these begin beyond the next one: something that was sent before has not arrived. Nothing was applied. "expectedSequence" is the number to go on from.',
  remedy: 'Send the records from "expectedSequence" on, these included, in their order.',
});

export const EpochFenced = problemType({
  code: 'epoch-fenced',
  status: 409,
  title: 'Another epoch of the feed may send',
  underKey: 'released',
  explanation:
    'Only the epoch of a feed that was opened last may send, and this one is another: somebody has opened a later one, or none was opened yet. Nothing was applied. "currentEpoch" is the one that may; 0 when there is none.',
  remedy:
    'If you are the sender of this feed, open an epoch of your own and send again from what you last got acknowledged. If you are not, stop: another sender has taken your place.',
});

export const SequenceReused = problemType({
  code: 'sequence-reused',
  status: 422,
  title: 'A number stands for another record',
  underKey: 'stored',
  explanation:
    'A number at or below the last one is a repeat and must carry the record that it carried before. The one in "sequence" does not. Nothing was applied.',
  remedy:
    'You have lost count. Read the feed for its last number, find out which of your records were taken, and give the others the numbers behind it.',
});
