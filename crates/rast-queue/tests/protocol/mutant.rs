//! Rules that can be left out of the protocol, to see that the model misses each of them.

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
    /// The hint also stands for claims at and past the last slot.
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
    /// The heavy fence does not empty the producers' store buffers.
    NoHeavy,
    /// A producer does not ask whether its ticket was given up.
    NoQuiet,
    /// A ticket that is given up is named without the number of the use.
    NoNumber,
    /// A ticket is entered and counted after the heavy fence.
    EnterLate,
    /// A consumer that has found its slot written takes it, whatever its cell says.
    NoDecision,
    /// A ticket that no producer has is given up like that of a late producer.
    NoClaim,
    /// A consumer claims the next ticket of its segment on `tail`, whether it is its own or not.
    ClaimAny,
    /// A consumer claims its index on `tail`, whichever segment that leads to.
    ClaimAnywhere,
    /// A consumer ends a ticket that no producer has without claiming it.
    EndUnclaimed,
    /// Slots keep their state when the segment is used again.
    NoReset,
}
