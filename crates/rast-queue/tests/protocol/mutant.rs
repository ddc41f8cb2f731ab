//! The rules that can be left out of the protocol, to show that the model finds each resulting
//! fault.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mutant {
    #[default]
    None,
    /// The check for emptiness does not compare `retired`.
    NoRetired,
    /// The check for emptiness does not look at `head` again after it has loaded `retired`.
    NoHeadAgain,
    /// `retired` is counted after the segment can be used again.
    RetireLate,
    /// A claimed slot that is unwritten does not reset the hint.
    KeepHint,
    /// The hint also covers claims at and past the last slot.
    HintForPins,
    /// A new segment is linked with an empty slot 0, and `tail` starts at 1.
    LinkUnfilled,
    /// A new segment is linked with slot 0 filled, and `tail` starts at 0.
    LinkFromZero,
    /// A segment is freed when `control` is zero, even if not all of its slots are DONE.
    NoSweep,
    /// The thread that moves a word off a segment does not add the pins of the word.
    NoOvershoot,
    /// A thread that finds a full segment accesses it without a pin.
    NoPin,
    /// A pin of `tail` is always released on the segment, even while `tail` still counts it.
    PinToSegment,
    /// A pin of `tail` is always released on `tail`, even if `tail` has moved on.
    PinAnywhere,
    /// A full last segment is closed by CLOSED alone, without the mark in `next`.
    NoTerminal,
    /// An item that is put back is linked over the mark before CLOSED is set.
    OverTerminal,
    /// A consumer stores DONE before it reads the value.
    DoneBeforeRead,
    /// A consumer waits for the producer of its ticket.
    Wait,
    /// A producer that finds its ticket given up leaves the slot as it is.
    NoDone,
    /// A producer reports success, whatever its swap returned.
    PublishBlindly,
    /// A consumer gives its ticket up by a store, whatever the state of the slot.
    StoreGivenUp,
    /// A consumer leaves the slot although its compare-exchange found WRITTEN.
    LeaveWritten,
    /// A consumer takes from a slot that it has given up.
    TakeGivenUp,
    /// A consumer that gives its ticket up stores DONE, as the producer does.
    DoneByBoth,
    /// A batch keeps the tickets that no producer has claimed.
    KeepUnclaimed,
    /// A batch that gives such tickets up does not reset the hint.
    KeepHintOfBatch,
    /// Slots keep their state when the segment is reused.
    NoReset,
}
