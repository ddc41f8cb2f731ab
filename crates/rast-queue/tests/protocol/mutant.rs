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
    /// A segment is freed at the zero, whether its slots are DONE or not.
    NoSweep,
    /// Who moves a word away from a segment does not add the pins.
    NoOvershoot,
    /// Who meets a full segment goes on without a pin.
    NoPin,
    /// A pin of `tail` always goes to the segment, also where `tail` counts it still.
    PinToSegment,
    /// A pin of `tail` goes back into that word wherever it leads.
    PinAnywhere,
    /// A full last segment is closed by the flag alone.
    NoTerminal,
    /// An item that comes back is linked over the end before CLOSED is set.
    OverTerminal,
    /// A consumer marks the slot DONE, then reads it.
    DoneBeforeRead,
    /// A consumer waits for the producer of its ticket.
    Wait,
    /// A producer that finds its ticket given up leaves the slot as it is.
    NoDone,
    /// A producer takes its push for a success, whatever its exchange found.
    PublishBlindly,
    /// A consumer gives its ticket up by a store, whatever the slot holds.
    StoreGivenUp,
    /// A consumer goes away although its exchange found the value.
    LeaveWritten,
    /// A consumer takes from a slot that it has given up.
    TakeGivenUp,
    /// A consumer that gives its ticket up marks the slot DONE, as the producer does.
    DoneByBoth,
    /// A batch keeps the tickets that no producer has claimed.
    KeepUnclaimed,
    /// A batch that gives such tickets up does not reset the hint.
    KeepHintOfBatch,
    /// Slots keep their state when the segment is used again.
    NoReset,
}
