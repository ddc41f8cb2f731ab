//! The rules that can be left out of the protocol, to show that the model finds each resulting
//! fault.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mutant {
    #[default]
    None,
    /// A worker sleeps without a second look after its announcement.
    NoSecondLook,
    /// A thread that pushes looks at the sleepers before it pushes.
    LookBeforePush,
    /// The role takes what is due without claiming it.
    NoClaim,
    /// A wake-up moves the task whether it waits or not.
    AlwaysMove,
    /// The role puts a task to wait whatever its flags say.
    WaitBlindly,
    /// The role leaves the entry of a woken task in the store.
    KeepEntry,
    /// A worker runs a step without a look at those that sleep.
    NoShare,
    /// A thread that finds only notified sleepers leaves them to the others.
    NoHelp,
    /// The keeper is not told of an earlier deadline.
    NoHasten,
    /// A keeper that wakes for a step leaves no other in its place.
    NoNextKeeper,
    /// `stop` wakes no sleeper.
    SilentStop,
    /// A signal does not keep the task from waiting.
    SignalsWait,
    /// WOKEN is cleared after the step.
    BeginLate,
    /// The role moves a task a time before it is due.
    Early,
    /// A worker makes what it takes from another ready, in place of running it.
    StealToKeep,
    /// A worker that finds the role taken while a deadline is due sleeps until that deadline.
    KeepBesideRole,
    /// A worker that finds the role free lets it go, and takes it when it is awake.
    TryRoleTwice,
    /// The close refuses posts before it has emptied the store.
    CloseEarly,
    /// The close does not take what was posted while it emptied the store.
    CloseOnce,
}
