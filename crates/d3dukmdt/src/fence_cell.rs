//! The cell of a fence's value, which engines, driver and graphics kernel share.
//!
//! - A value may fall, and a wait that was satisfied once stays satisfied. Within an *epoch* the
//!   value only rises; a store below it closes the epoch. The cell keeps the number of the current
//!   epoch and the falling peaks of closed ones. A wait carries the epoch of its call, and passes
//!   at the value or at a peak of an epoch that closed after the call (`decisions/0013`).
//! - Steps of a store: see [`FenceCell::store`]. After a store, its caller evaluates the waits.
//! - A wait loads the epoch, then the value. [`FenceCell::satisfies`] may be false in the middle of
//!   a rewind, because the rewinding agent evaluates the waits afterwards.
//! - A cell without a history belongs to hardware that stores values by itself, and judges waits by
//!   the value alone.

use std::num::NonZeroU32;
use tidegate_platform::{Step, Word};

/// Bytes of values in a fence page: what is mapped into address spaces.
pub const VALUE_BYTES: u64 = 4096;
/// Words of values in a fence page.
pub const VALUE_WORDS: usize = VALUE_BYTES as usize / 8;
/// Words of history for each word of values.
const HISTORY_WORDS_PER_VALUE: usize = 8;
/// Words of a fence page: the values, then their histories.
pub const PAGE_WORDS: usize = VALUE_WORDS * (1 + HISTORY_WORDS_PER_VALUE);

/// Limit on the peaks of a cell beyond those in its page. If there are more, every second peak is
/// dropped and counted. The limit bounds the cost of a process's fences: 256 KiB each, and the time
/// to read a history.
pub const MAX_ANNEX_PEAKS: usize = 1 << 14;
/// Peaks in a piece of an annex.
const PIECE_PEAKS: usize = 512;

/// Epoch of a wait whose value was reached at the call: it stays satisfied.
pub const REACHED: u64 = u64::MAX;
/// Epoch of a wait that is judged only by the value.
pub const NO_EPOCH: u64 = 0;
/// In place of an epoch, in a condemned cell: every wait passes and stores have no effect.
const ALWAYS: u64 = u64::MAX;
/// Mark of epochs; no other word of a history has it. A fence's history takes the room of all words
/// up to the next fence. In place of the epoch of a word between two fences there is a peak,
/// without the mark. A process may have engines store to such a word; the missing mark shows that
/// it has no history.
const EPOCH_MARK: u64 = 1 << 63;

/// Words of a history, from its start.
mod at {
    /// The present epoch; odd while a rewind is under way.
    pub(super) const EPOCH: usize = 0;
    /// Waits of earlier epochs belong to an earlier fence of the cell, and pass.
    pub(super) const FIRST_EPOCH: usize = 1;
    /// Number of peaks (low half), room for peaks in the page (next 16 bits), and limit on the
    /// peaks beyond it.
    pub(super) const DEPTH: usize = 2;
    /// Number of dropped peaks.
    pub(super) const LOST: usize = 3;
    /// Pairs of label and peak: labels rise, peaks fall. Labels are odd. The lowest bit of a stored
    /// label is 0 after a dropped peak.
    pub(super) const PEAKS: usize = 4;
}

/// Returns the number of peaks that have room in the page of a fence with this stride.
pub const fn peaks_in_page(stride_bytes: u64) -> usize {
    (stride_bytes as usize / 8 * HISTORY_WORDS_PER_VALUE).saturating_sub(at::PEAKS) / 2
}

/// A wait as a cell judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceWait {
    /// Satisfied at this value or above.
    pub value: u64,
    /// The cell's epoch at the call, [`REACHED`] or [`NO_EPOCH`].
    pub epoch: u64,
}

/// What a cell says of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value, or a peak since the call, has reached the wait's.
    Satisfied,
    /// Nothing has reached the wait's value since its call.
    Unsatisfied,
    /// A dropped peak may have reached the wait's value. No later reading can decide this.
    Lost,
}

/// The cell of one fence.
#[derive(Clone, Debug)]
pub struct FenceCell {
    value: Word,
    /// First word of the history, in the page of the value. The first words of a page are values.
    history: Option<NonZeroU32>,
}

/// Returns the last peak of an epoch that was closed up to `epoch`, and the first one after.
fn around(peaks: &[Peak], epoch: u64) -> (Option<Peak>, Option<Peak>) {
    let since = peaks.iter().position(|peak| epoch < peak.label).unwrap_or(peaks.len());
    let before = since.checked_sub(1).map(|number| peaks[number]);
    (before, peaks.get(since).copied())
}

/// A closed epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peak {
    label: u64,
    value: u64,
    /// Whether peaks between the one before and this one were dropped.
    follows_dropped: bool,
}

/// Judges a wait by the first peak since its call, which is the largest, and the peak before that.
/// Peaks dropped between the two were lower than `before`.
// spec: NF-342
fn judge_by_peaks(before: Option<Peak>, since: Option<Peak>, value: u64) -> Verdict {
    match since {
        Some(peak) if value <= peak.value => Verdict::Satisfied,
        Some(peak) if peak.follows_dropped && before.is_none_or(|b| value < b.value) => {
            Verdict::Lost
        }
        _ => Verdict::Unsatisfied,
    }
}

/// Value and history of a cell at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The value.
    pub value: u64,
    /// The epoch that was loaded before the value.
    epoch: u64,
    first_epoch: u64,
    /// Labels rise, values fall.
    peaks: Vec<Peak>,
}

impl Snapshot {
    /// A value without a history.
    pub fn at_value(value: u64) -> Snapshot {
        Snapshot { value, epoch: REACHED, first_epoch: 0, peaks: Vec::new() }
    }

    /// Whether the wait is satisfied.
    pub fn satisfies(&self, wait: FenceWait) -> bool {
        self.judge(wait) == Verdict::Satisfied
    }

    /// Judges the wait.
    // spec: NF-008
    pub fn judge(&self, wait: FenceWait) -> Verdict {
        let is_reached = wait.value <= self.value && wait.epoch <= self.epoch;
        if wait.epoch == REACHED || is_reached {
            return Verdict::Satisfied;
        }
        if wait.epoch == NO_EPOCH {
            return Verdict::Unsatisfied;
        }
        if wait.epoch < self.first_epoch {
            return Verdict::Satisfied;
        }
        let (before, since) = around(&self.peaks, wait.epoch);
        judge_by_peaks(before, since, wait.value)
    }

    /// Whether peaks were dropped that a wait may be lost to.
    pub fn has_lost(&self) -> bool {
        self.peaks.iter().any(|peak| peak.follows_dropped)
    }

    /// No wait for more than this is satisfied, save waits of an earlier fence.
    pub fn highest(&self) -> u64 {
        if self.first_epoch == ALWAYS {
            return u64::MAX;
        }
        self.peaks.first().map_or(self.value, |p| p.value.max(self.value))
    }
}

impl FenceCell {
    /// A cell whose history is behind it; `value` is a word of the values of a fence page that
    /// begins at word `page_start` of its memory.
    pub fn in_fence_page(value: Word, page_start: usize) -> FenceCell {
        let index = value.index() - page_start;
        debug_assert!(index < VALUE_WORDS, "a value stands in the first part of a fence page");
        let history = page_start + VALUE_WORDS + index * HISTORY_WORDS_PER_VALUE;
        FenceCell { value, history: NonZeroU32::new(history as u32) }
    }

    /// A cell without a history.
    pub fn plain(value: Word) -> FenceCell {
        FenceCell { value, history: None }
    }

    /// The word of the value.
    #[inline]
    pub fn word(&self) -> &Word {
        &self.value
    }

    /// The word of the epoch, which a wait call loads before the value; `None` without a history.
    pub fn epoch_word(&self) -> Option<Word> {
        self.history().map(|history| history.word(at::EPOCH))
    }

    /// The value now.
    #[inline]
    pub fn load(&self) -> u64 {
        self.value.load()
    }

    /// A wait for `value` that is made now.
    pub fn wait_for(&self, value: u64) -> FenceWait {
        let epoch = self.history().map_or(NO_EPOCH, |history| history.load(at::EPOCH));
        FenceWait { value, epoch: if self.load() >= value { REACHED } else { epoch } }
    }

    /// Prepares the cell for a new fence; waits for an earlier one pass. `stride_bytes` is the room
    /// of the fence in its page. `annex_peaks`: the limit on the peaks beyond those in the page, at
    /// most [`MAX_ANNEX_PEAKS`].
    pub fn renew(&self, value: u64, stride_bytes: u64, annex_peaks: usize) {
        let Some(history) = self.history() else { return self.value.store(value) };
        let epoch = history.lock_or_begin() + 1;
        let room = peaks_in_page(stride_bytes);
        history.word(at::DEPTH).store(depth_word(0, room, annex_peaks.min(MAX_ANNEX_PEAKS)));
        self.value.drop_annexes();
        history.word(at::LOST).store(0);
        history.word(at::FIRST_EPOCH).store(epoch);
        self.value.exchange(value);
        history.unlock(epoch);
    }

    /// Every wait that was made passes, and no store makes the value fall any more. The value
    /// does not change; a reader that shows it replaces it by the maximum. No effect without a
    /// history.
    pub fn let_pass(&self) {
        if let Some(history) = self.history() {
            let epoch = history.lock_or_begin() + 1;
            history.word(at::FIRST_EPOCH).store(ALWAYS);
            history.unlock(epoch);
        }
    }

    /// Condemns the cell: every wait passes and stores have no effect.
    pub fn condemn(&self) {
        let Some(history) = self.history() else {
            self.value.exchange(u64::MAX);
            return;
        };
        let epoch = history.lock_or_begin() + 1;
        history.word(at::FIRST_EPOCH).store(ALWAYS);
        // Readers see the maximum; a store of less is a rewind, which finds the mark.
        self.value.exchange(u64::MAX);
        history.unlock(epoch);
    }

    /// Returns whether the cell is condemned. Not known for a cell without a history.
    pub fn is_condemned(&self) -> bool {
        self.history().is_some_and(|history| history.load(at::FIRST_EPOCH) == ALWAYS)
    }

    /// Stores a value. A full barrier. Returns the peak if the value fell.
    ///
    /// 1. Load the value. If the new one is not below it, compare-exchange: done.
    /// 2. Else it is a rewind. Make the epoch odd: rewinds of a cell are serialised.
    /// 3. Load the value (the peak), then take the next odd number as the label of the rewind.
    /// 4. Push label and peak, and drop older entries that are not larger: the newer peak satisfies
    ///    their waits. Beyond the page, up to [`MAX_ANNEX_PEAKS`] go to an annex.
    /// 5. Compare-exchange the value. If it was raised meanwhile, go to 3.
    /// 6. Make the epoch even, one above the label.
    ///
    /// A wait that read the label came after step 3. Until step 5 the value was the peak, so the
    /// wait has seen the peak or comes after the rewind.
    // spec: NF-009, MF-013, ME-031, ME-038, ME-041
    #[inline]
    pub fn store(&self, value: u64) -> Option<u64> {
        let Some(start) = self.history else {
            self.value.exchange(value);
            return None;
        };
        // 1.
        if self.raise(value) {
            return None;
        }
        self.rewind(start, value)
    }

    /// Step 1 of a store. Returns `false`, and stores nothing, if the value would fall. A full
    /// barrier otherwise.
    #[inline]
    pub fn raise(&self, value: u64) -> bool {
        let mut seen = self.value.load();
        while value >= seen {
            match self.value.compare_exchange(seen, value) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Steps 2 to 6.
    #[cold]
    fn rewind(&self, start: NonZeroU32, value: u64) -> Option<u64> {
        let history = History { of: &self.value, start: start.get() as usize };
        // 2.
        let mut rewind = match Rewind::begin(history) {
            Ok(rewind) => rewind,
            Err(NoRewind::Condemned) => return None,
            Err(NoRewind::NoFence) => {
                self.value.exchange(value);
                return None;
            }
        };
        let fell = loop {
            // 3.
            let peak = rewind.peak();
            if value < peak {
                rewind.take_label();
                // 4.
                rewind.push(peak);
            }
            // 5.
            if rewind.fall(peak, value) {
                break (value < peak).then_some(peak);
            }
        };
        // 6.
        rewind.end();
        fell
    }

    /// Only step 2, so that a test can run the other steps in another order; `None` where nothing
    /// can be rewound.
    pub fn begin_rewind(&self) -> Option<Rewind<'_>> {
        Rewind::begin(self.history()?).ok()
    }

    /// Whether the wait is satisfied. May be false in the middle of a rewind; the rewinding agent
    /// evaluates the waits afterwards.
    #[inline]
    pub fn satisfies(&self, wait: FenceWait) -> bool {
        self.judge(wait) == Verdict::Satisfied
    }

    /// Judges the wait. Never [`Verdict::Lost`] in the middle of a rewind.
    #[inline]
    pub fn judge(&self, wait: FenceWait) -> Verdict {
        if self.value.load() >= wait.value || wait.epoch == REACHED {
            return Verdict::Satisfied;
        }
        let Some(history) = self.history() else { return Verdict::Unsatisfied };
        let epoch = history.load(at::EPOCH);
        if epoch == wait.epoch || wait.epoch == NO_EPOCH || epoch & EPOCH_MARK == 0 {
            return Verdict::Unsatisfied;
        }
        history.judge(epoch, wait)
    }

    /// Reads value and history. Waits for the end of a rewind that is under way.
    pub fn snapshot(&self) -> Snapshot {
        self.history().map_or_else(|| Snapshot::at_value(self.load()), |history| history.snapshot())
    }

    /// Reads only the value, for waits that were called before: a wait that comes after a rewind
    /// has a later epoch.
    pub fn latest(&self) -> Snapshot {
        let epoch = self.history().map_or(REACHED, |history| history.load(at::EPOCH));
        // In the middle of a rewind, the value may be that before it, and a wait may have read the
        // very label after it.
        Snapshot { value: self.load(), epoch: epoch & !1, first_epoch: 0, peaks: Vec::new() }
    }

    /// Reads value and history if a rewind began since `epoch`: for a wait of that epoch that an
    /// earlier [`latest`](FenceCell::latest) did not satisfy. Without this, a rewind between the
    /// two would hide its peak.
    pub fn snapshot_since(&self, epoch: u64) -> Option<Snapshot> {
        // While the epoch is the wait's, the latest value was the highest since the
        // call.
        (self.history()?.load(at::EPOCH) > epoch).then(|| self.snapshot())
    }

    /// Number of peaks dropped since the fence was created. Each may have lost a waiter.
    pub fn history_lost(&self) -> u64 {
        self.history().map_or(0, |history| history.load(at::LOST))
    }

    #[inline]
    fn history(&self) -> Option<History<'_>> {
        self.history.map(|start| History { of: &self.value, start: start.get() as usize })
    }
}

/// A rewind under way: the steps of [`FenceCell::store`], one by one, so that a test can change
/// their order. It must [`end`](Rewind::end).
pub struct Rewind<'a> {
    history: History<'a>,
    label: u64,
}

/// Why a cell cannot be rewound.
enum NoRewind {
    /// The cell is condemned.
    Condemned,
    /// The word has no fence.
    NoFence,
}

impl<'a> Rewind<'a> {
    fn begin(history: History<'a>) -> Result<Rewind<'a>, NoRewind> {
        let label = history.lock().ok_or(NoRewind::NoFence)?;
        if history.load(at::FIRST_EPOCH) == ALWAYS {
            history.unlock(label + 1);
            return Err(NoRewind::Condemned);
        }
        Ok(Rewind { history, label })
    }

    /// The value that is about to fall.
    pub fn peak(&self) -> u64 {
        self.history.of.load()
    }

    /// Takes the next label. Waits that read it from now on are not satisfied by the peak.
    pub fn take_label(&mut self) {
        self.label += 2;
        self.history.word(at::EPOCH).store(self.label);
    }

    /// Keeps the peak under the label.
    pub fn push(&self, peak: u64) {
        self.history.push(self.label, peak);
    }

    /// Changes the value from `peak` to `value`; `false` when it was raised meanwhile.
    pub fn fall(&self, peak: u64, value: u64) -> bool {
        self.history.of.compare_exchange(peak, value).is_ok()
    }

    /// The next rewind may begin.
    pub fn end(self) {
        self.history.unlock(self.label + 1);
    }
}

struct History<'a> {
    of: &'a Word,
    start: usize,
}

impl History<'_> {
    fn word(&self, number: usize) -> Word {
        self.of.sibling(self.start + number)
    }

    #[inline]
    fn load(&self, number: usize) -> u64 {
        self.of.load_sibling(self.start + number)
    }

    /// Judges a wait by the history, which has reached `epoch` since the call.
    #[cold]
    fn judge(&self, epoch: u64, wait: FenceWait) -> Verdict {
        // Also while the epoch is odd: no evaluation follows the end of `renew`.
        let first_epoch = self.load(at::FIRST_EPOCH);
        if wait.epoch < first_epoch {
            return Verdict::Satisfied;
        }
        if !epoch.is_multiple_of(2) {
            return Verdict::Unsatisfied;
        }
        let (before, since) = self.peaks_around(wait.epoch);
        match self.load(at::EPOCH) == epoch {
            true => judge_by_peaks(before, since, wait.value),
            false => Verdict::Unsatisfied,
        }
    }

    /// Makes the epoch odd and returns it; `None` without a fence.
    fn lock(&self) -> Option<u64> {
        let word = self.word(at::EPOCH);
        loop {
            let epoch = self.quiet_epoch().ok()?;
            if word.compare_exchange(epoch, epoch + 1).is_ok() {
                return Some(epoch + 1);
            }
        }
    }

    /// The same where a fence is made, perhaps the first one.
    fn lock_or_begin(&self) -> u64 {
        let word = self.word(at::EPOCH);
        loop {
            match self.quiet_epoch() {
                Ok(epoch) if word.compare_exchange(epoch, epoch + 1).is_ok() => return epoch + 1,
                Err(other) if word.compare_exchange(other, EPOCH_MARK | 1).is_ok() => {
                    return EPOCH_MARK | 1;
                }
                _ => {}
            }
        }
    }

    /// Makes the epoch even: `epoch`. A full barrier, because the caller evaluates the waits
    /// next.
    fn unlock(&self, epoch: u64) {
        let word = self.word(at::EPOCH);
        word.exchange(epoch);
        word.wake(u32::MAX, Step::ThreadWake);
    }

    /// The epoch, once no rewind is under way; `Err` with what is in its place without a
    /// fence.
    fn quiet_epoch(&self) -> Result<u64, u64> {
        let word = self.word(at::EPOCH);
        loop {
            let epoch = word.load();
            if epoch & EPOCH_MARK == 0 {
                return Err(epoch);
            }
            if epoch.is_multiple_of(2) {
                return Ok(epoch);
            }
            word.wait_while(epoch as u32, None, "the end of a rewind of a fence");
        }
    }

    fn snapshot(&self) -> Snapshot {
        loop {
            let Ok(epoch) = self.quiet_epoch() else { return Snapshot::at_value(self.of.load()) };
            let value = self.of.load();
            let first_epoch = self.load(at::FIRST_EPOCH);
            let peaks = self.peaks();
            if self.load(at::EPOCH) == epoch {
                return Snapshot { value, epoch, first_epoch, peaks };
            }
        }
    }

    /// The label and the value of an entry; the first `room` are in the page.
    fn place(&self, number: usize, room: usize) -> [Word; 2] {
        let Some(beyond) = number.checked_sub(room) else {
            let word = at::PEAKS + number * 2;
            return [self.word(word), self.word(word + 1)];
        };
        let (piece, word) = (beyond / PIECE_PEAKS, beyond % PIECE_PEAKS * 2);
        let piece = self.of.annex(piece as u32, 2 * PIECE_PEAKS);
        [piece.word(word), piece.word(word + 1)]
    }

    fn peak(&self, number: usize, room: usize) -> Peak {
        let [label, value] = self.place(number, room);
        Peak::read(&label, &value)
    }

    fn set_peak(&self, number: usize, room: usize, peak: Peak) {
        let [label, value] = self.place(number, room);
        label.store((peak.label & !EPOCH_MARK) ^ u64::from(peak.follows_dropped));
        value.store(peak.value);
    }

    /// Number of entries, and how many have room in the page.
    fn depth(&self) -> (usize, usize) {
        let (depth, room, _) = self.depth_and_limit();
        (depth, room)
    }

    /// The same, and the limit on the entries beyond the page.
    fn depth_and_limit(&self) -> (usize, usize, usize) {
        let word = self.load(at::DEPTH);
        let (depth, room, annex) =
            (word as u32 as usize, (word >> 32) as u16 as usize, (word >> 48) as usize);
        // A process may write the word.
        let annex = annex.min(MAX_ANNEX_PEAKS);
        (depth.min(room + annex), room, annex)
    }

    /// Adds a peak. When the annex is full, every second peak is dropped, and the loss is counted.
    /// The oldest and the largest peak stay, so a wait that was called before both is judged
    /// exactly.
    fn push(&self, label: u64, value: u64) {
        let (before, room, annex) = self.depth_and_limit();
        let mut peak = Peak { label, value, follows_dropped: false };
        let mut depth = before;
        while depth > 0 {
            let last = self.peak(depth - 1, room);
            if last.value > value {
                break;
            }
            // Peaks dropped before the last one may have been above this one.
            peak.follows_dropped = last.follows_dropped;
            depth -= 1;
        }
        if depth >= room + annex {
            let kept = depth.div_ceil(2);
            let lost = self.word(at::LOST);
            lost.store(lost.load() + (depth - kept) as u64);
            for number in 1..kept {
                let moved = Peak { follows_dropped: true, ..self.peak(2 * number, room) };
                self.set_peak(number, room, moved);
            }
            peak.follows_dropped = depth.is_multiple_of(2);
            depth = kept;
        }
        if depth < room && before > room {
            self.of.drop_annexes();
        }
        self.set_peak(depth, room, peak);
        self.word(at::DEPTH).store(depth_word(depth + 1, room, annex));
    }

    fn peaks(&self) -> Vec<Peak> {
        self.first_peaks(self.depth())
    }

    /// The first `depth` peaks.
    fn first_peaks(&self, (depth, room): (usize, usize)) -> Vec<Peak> {
        let mut peaks: Vec<Peak> =
            (0..depth.min(room)).map(|number| self.peak(number, room)).collect();
        for (piece, from) in (0..).zip((room..depth).step_by(PIECE_PEAKS)) {
            let piece = self.of.annex(piece, 2 * PIECE_PEAKS);
            peaks
                .extend((0..PIECE_PEAKS.min(depth - from)).map(|number| {
                    Peak::read(&piece.word(2 * number), &piece.word(2 * number + 1))
                }));
        }
        peaks
    }

    /// The last peak of an epoch that was closed up to `epoch`, and the first one after, which is
    /// the largest since.
    fn peaks_around(&self, epoch: u64) -> (Option<Peak>, Option<Peak>) {
        let (depth, room) = self.depth();
        if depth <= room {
            return around(&self.first_peaks((depth, room)), epoch);
        }
        // Labels rise. A concurrent rewind may spoil the search; the caller detects it by the
        // epoch.
        let (mut from, mut to) = (0, depth);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.peak(middle, room).label > epoch {
                true => to = middle,
                false => from = middle + 1,
            }
        }
        let since = (from < depth).then(|| self.peak(from, room));
        let follows_dropped = since.is_some_and(|peak| peak.follows_dropped);
        let before = from.checked_sub(1).filter(|_| follows_dropped);
        (before.map(|number| self.peak(number, room)), since)
    }
}

/// The word of [`at::DEPTH`].
fn depth_word(depth: usize, room: usize, annex: usize) -> u64 {
    (annex as u64) << 48 | (room as u64) << 32 | depth as u64
}

impl Peak {
    fn read(label: &Word, value: &Word) -> Peak {
        let label = label.load();
        let follows_dropped = label.is_multiple_of(2);
        Peak { label: label | EPOCH_MARK | 1, value: value.load(), follows_dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::Platform;

    fn cell(stride_bytes: u64) -> FenceCell {
        let page = Platform::host().page(PAGE_WORDS);
        let cell = FenceCell::in_fence_page(page.word(8), 0);
        cell.renew(0, stride_bytes, MAX_ANNEX_PEAKS);
        cell
    }

    // spec: ME-042, NF-008
    #[test]
    fn a_wait_latches_over_a_rewind_and_a_later_one_does_not() {
        let cell = cell(64);
        let before = cell.wait_for(5);
        let by_value = FenceWait { value: 5, epoch: NO_EPOCH };
        assert!(!cell.satisfies(before));
        assert_eq!(cell.store(7), None);
        assert_eq!(cell.store(0), Some(7));
        let after = cell.wait_for(5);
        assert!(cell.satisfies(before) && cell.snapshot().satisfies(before));
        for unsatisfied in [after, by_value] {
            assert!(!cell.satisfies(unsatisfied) && !cell.snapshot().satisfies(unsatisfied));
        }
        assert!(!cell.satisfies(FenceWait { value: 8, ..before }), "the peak was 7");
        cell.store(5);
        assert!(cell.satisfies(after));
    }

    #[test]
    fn a_wait_is_satisfied_by_the_largest_peak_since_its_call() {
        let cell = cell(64);
        let first = cell.wait_for(9);
        for value in [9, 0, 7, 0] {
            cell.store(value);
        }
        let second = cell.wait_for(6);
        for value in [6, 0, 3, 0] {
            cell.store(value);
        }
        let snapshot = cell.snapshot();
        assert!(snapshot.satisfies(first) && snapshot.satisfies(second));
        assert!(!snapshot.satisfies(FenceWait { value: 7, ..second }), "7 was before the call");
        assert_eq!((snapshot.highest(), cell.history_lost()), (9, 0));
    }

    #[test]
    fn what_was_reached_at_the_call_stays_so_and_the_maximum_is_a_value() {
        let cell = cell(64);
        cell.store(3);
        let reached = cell.wait_for(3);
        assert_eq!(reached.epoch, REACHED);
        cell.store(1);
        assert!(cell.satisfies(reached) && cell.satisfies(cell.wait_for(0)));
        let maximum = cell.wait_for(u64::MAX);
        assert!(!cell.satisfies(maximum));
        cell.store(u64::MAX);
        cell.store(0);
        assert!(cell.satisfies(maximum));
    }

    #[test]
    fn a_new_fence_in_the_cell_lets_the_waits_for_the_old_one_pass() {
        let cell = cell(64);
        let old = cell.wait_for(100);
        assert!(!cell.is_condemned());
        cell.condemn();
        assert!(cell.satisfies(old) && cell.is_condemned());
        assert_eq!((cell.store(3), cell.load()), (None, u64::MAX), "signals do nothing");
        cell.renew(2, 64, MAX_ANNEX_PEAKS);
        assert!(cell.satisfies(old), "it waited for a fence that is gone");
        let new = cell.wait_for(3);
        assert!(!cell.satisfies(new) && cell.load() == 2);
    }

    /// Waits for `values`, each made before the pulse of its value.
    fn pulses(cell: &FenceCell, values: impl Iterator<Item = u64>) -> Vec<FenceWait> {
        let pulse = |value| {
            let wait = cell.wait_for(value);
            cell.store(value);
            cell.store(0);
            wait
        };
        values.map(pulse).collect()
    }

    // spec: ME-042, NF-008
    #[test]
    fn falling_pulses_beyond_the_room_in_the_page_latch_as_well() {
        for stride_bytes in [8, 64, 2048] {
            let cell = cell(stride_bytes);
            let waits = pulses(&cell, (1..=5_000).rev());
            let snapshot = cell.snapshot();
            for wait in &waits {
                assert!(
                    cell.satisfies(*wait) && snapshot.satisfies(*wait),
                    "{wait:?} at stride {stride_bytes}"
                );
                let above = FenceWait { value: wait.value + 1, ..*wait };
                assert!(
                    !cell.satisfies(above) && !snapshot.satisfies(above),
                    "{above:?} was never reached"
                );
            }
            // A peak above all others replaces them, and the next peaks are in the page again.
            cell.store(6_000);
            cell.store(0);
            assert_eq!((cell.snapshot().peaks.len(), cell.satisfies(waits[4_999])), (1, true));
            let again = pulses(&cell, (1..=100).rev());
            assert!(again.iter().all(|wait| cell.satisfies(*wait)));
            assert_eq!(cell.history_lost(), 0);
        }
    }

    #[test]
    fn a_full_annex_drops_every_second_peak_and_counts_it() {
        let cell = cell(8);
        let most = 2 + MAX_ANNEX_PEAKS as u64;
        let waits = pulses(&cell, (1..=most).rev());
        assert!(cell.satisfies(waits[0]) && cell.history_lost() == 0);
        let last = FenceWait { value: 1, epoch: cell.wait_for(2).epoch };
        cell.store(1);
        cell.store(0);
        assert!(
            cell.satisfies(last) && cell.history_lost() == 0,
            "a peak that is not lower takes the place of another"
        );
        // A fence that was never at 0 falls further.
        let cell = self::cell(8);
        let waits = pulses(&cell, (2..=most + 2).rev());
        assert_eq!(cell.history_lost(), most / 2);
        let verdicts: Vec<_> = waits.iter().map(|wait| cell.judge(*wait)).collect();
        let lost = verdicts.iter().filter(|verdict| **verdict == Verdict::Lost);
        assert_eq!(lost.count() as u64, most / 2, "each wait for a dropped peak");
        assert_eq!(verdicts.first(), Some(&Verdict::Satisfied), "the oldest peak is kept");
        assert_eq!(verdicts.last(), Some(&Verdict::Satisfied));
        let snapshot = cell.snapshot();
        assert!(waits.iter().zip(&verdicts).all(|(wait, seen)| snapshot.judge(*wait) == *seen));
    }

    /// All waits of all epochs, against a list of all peaks.
    // spec: NF-342
    #[test]
    fn a_wait_is_lost_only_where_a_dropped_peak_could_have_reached_it() {
        for annex_peaks in 0..4 {
            let cell = cell(8);
            cell.renew(0, 8, annex_peaks);
            let mut peaks: Vec<(u64, u64)> = Vec::new();
            let mut epochs = vec![cell.wait_for(u64::MAX).epoch];
            let mut lost = 0;
            for value in [20, 18, 16, 14, 12, 10, 8, 11, 6, 4, 13, 3, 2, 15, 21, 5, 4, 3, 2, 1] {
                cell.store(value);
                cell.store(0);
                let label = cell.wait_for(u64::MAX).epoch;
                peaks.push((label, value));
                epochs.push(label);
                for (epoch, value) in epochs.iter().flat_map(|e| (1..25).map(move |v| (*e, v))) {
                    let wait = FenceWait { value, epoch };
                    let since = peaks.iter().filter(|(label, _)| *label > epoch);
                    let is_satisfied =
                        since.map(|(_, peak)| *peak).max().is_some_and(|p| p >= value);
                    let verdict = cell.judge(wait);
                    assert_eq!(verdict, cell.snapshot().judge(wait));
                    match verdict {
                        Verdict::Satisfied => assert!(is_satisfied, "{wait:?} after {peaks:?}"),
                        Verdict::Unsatisfied => assert!(!is_satisfied, "{wait:?} after {peaks:?}"),
                        Verdict::Lost => lost += 1,
                    }
                }
            }
            assert!(lost > 0 && cell.history_lost() > 0, "the limit is {annex_peaks}");
        }
    }

    #[test]
    fn a_new_fence_begins_without_the_annex_of_the_old_one() {
        let cell = cell(8);
        let old = pulses(&cell, (1..=1_000).rev());
        cell.renew(0, 8, MAX_ANNEX_PEAKS);
        assert!(cell.snapshot().peaks.is_empty() && cell.satisfies(old[0]));
        let new = pulses(&cell, (1..=20).rev());
        let unreached = FenceWait { value: 21, ..new[0] };
        assert!(new.iter().all(|wait| cell.satisfies(*wait)) && !cell.satisfies(unreached));
    }

    #[test]
    fn a_word_between_two_fences_has_no_history() {
        let page = Platform::host().page(PAGE_WORDS);
        let (fence, between) = (0, VALUE_WORDS - 8..VALUE_WORDS);
        let fence = [fence, between.start].map(|word| FenceCell::in_fence_page(page.word(word), 0));
        fence.iter().for_each(|cell| cell.renew(0, 64, MAX_ANNEX_PEAKS));
        // All the room for peaks is taken, by labels and by values that a process chose.
        for peak in (1..=40).rev() {
            for value in [peak * 3, 0] {
                fence
                    .iter()
                    .for_each(|cell| assert!(cell.store(value).is_none_or(|peak| peak > value)));
            }
        }
        let before = fence.each_ref().map(FenceCell::snapshot);
        for word in (1..8).chain(between.skip(1)) {
            let cell = FenceCell::in_fence_page(page.word(word), 0);
            // It neither waits for the end of a rewind that never began, nor leaves the page.
            for value in [9, 3, 0, u64::MAX, 1] {
                assert_eq!((cell.store(value), cell.load()), (None, value), "word {word}");
            }
            let wait = FenceWait { value: 2, epoch: 4 };
            assert!(!cell.satisfies(wait) && !cell.snapshot().satisfies(wait));
        }
        assert_eq!(
            fence.each_ref().map(FenceCell::snapshot),
            before,
            "and the fences are as they were"
        );
    }

    #[test]
    fn a_raise_stores_a_value_that_does_not_fall() {
        let cell = cell(64);
        for (value, stored, after) in [(5, true, 5), (5, true, 5), (4, false, 5), (9, true, 9)] {
            assert_eq!((cell.raise(value), cell.load()), (stored, after));
        }
        cell.condemn();
        assert_eq!((cell.raise(10), cell.load()), (false, u64::MAX));
    }

    #[test]
    fn a_cell_without_a_history_is_judged_by_its_value() {
        let cell = FenceCell::plain(Platform::host().page(1).word(0));
        let wait = cell.wait_for(5);
        cell.store(5);
        assert!(cell.satisfies(wait));
        cell.store(0);
        assert!(!cell.satisfies(wait));
    }
}
