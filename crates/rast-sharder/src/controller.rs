//! The user's code: the type of a shard, and its turn.
//!
//! The original RAST design gives the controller a shard's number and a `bool` that says whether
//! load figures may be touched. It trusts the controller to respect both. Here the sharder owns the
//! state of each shard and the figures, and lends both to the controller as exclusive borrows for
//! one call. So a controller cannot touch other shards, nor update figures that the leader reads.

use std::any::Any;
use std::boxed::Box;

use crate::cx::WorkerCx;
use crate::ids::ShardId;
use crate::load::LoadReport;
use crate::timers::Instant;

/// What a panic carried.
pub type PanicPayload = Box<dyn Any + Send + 'static>;

/// The result of a turn: when the shard gets its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// After the other ready shards of its worker have had theirs, also those that this turn woke.
    Again,
    /// Once it is woken. Until then it costs nothing.
    Idle,
    /// At this instant or soon after it, never before; earlier if it is woken. An instant in the
    /// past counts as `Again`, [`Instant::MAX`] as `Idle`.
    At(Instant),
}

/// What follows a panic in the code of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// The shard continues, with its state as it is. It gets another turn at once. If that turn
    /// panics too, the next one comes by a wake-up or after a pause. The pause doubles with each
    /// turn that panics, from 10 µs to about 82 ms. A turn that returns resets it.
    Continue,
    /// The shard is not run any more. It keeps its place, and its state is returned at the end.
    Retire,
    /// The shard is retired, and the whole sharder stops.
    Stop,
}

/// The user's code, called by the workers.
///
/// All calls for one shard run one after the other. Each sees what the earlier calls wrote, even if
/// they ran on another thread. A worker catches and records every panic of these calls. Then
/// [`on_panic`](Self::on_panic) decides what happens to the shard, with these exceptions:
///
/// - After a panic of [`before_turn`](Self::before_turn) its worker never calls it again.
/// - After a panic of [`report`](Self::report) the shard has no figures in that epoch.
/// - After a panic of `on_panic` the shard retires: it gets no more turns.
/// - A panic of [`new_load`](Self::new_load) during `build` passes through `build`.
///
/// A long call delays the shards of its own worker and no others. While it runs, no resharding can
/// complete, unless its worker is [dedicated](crate::Builder::dedicate).
///
/// ```
/// use rast_sharder::{Controller, LoadReport, Progress, ShardId, WorkerCx};
///
/// struct Count;
///
/// impl Controller for Count {
///     type Shard = u64;
///     type Load = ();
///     fn process(
///         &self,
///         cx: &mut WorkerCx<'_>,
///         _: ShardId,
///         turns: &mut u64,
///         _: Option<&mut ()>,
///     ) -> Progress {
///         *turns += 1;
///         if *turns == 100 {
///             cx.stop();
///         }
///         Progress::Again
///     }
///     fn new_load(&self, _: ShardId) {}
/// }
///
/// let sharder = rast_sharder::Sharder::builder(Count).shards(vec![0]).build()?;
/// let outcome = sharder.run()?;
/// assert_eq!(outcome.shards[0].state, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Controller: Send + Sync + 'static {
    /// The state of a shard. One thread at a time has it.
    type Shard: Send + 'static;

    /// The figures of a shard in one window.
    type Load: Send + 'static;

    /// Gives `shard` a turn. A shard gets a turn after its worker has acquired it, when its last
    /// turn asked for one, at its deadline, and after one or more wake-ups.
    ///
    /// `load` is `Some` while figures may be updated: from the start of an epoch until the worker
    /// has promised.
    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        state: &mut Self::Shard,
        load: Option<&mut Self::Load>,
    ) -> Progress;

    /// Makes the empty figures of a shard.
    fn new_load(&self, shard: ShardId) -> Self::Load;

    /// Empties the figures of a shard, once in each window in which the shard is [used]. The worker
    /// calls it before the first turn of the shard in the window, or when it acquires the shard. If
    /// the shard is ready at the end of the window but had no turn, the worker calls it at the end.
    /// A shard that is idle through a window keeps its old figures, which are not read. If this
    /// call panics, the figures of this window are not reported. The default replaces the figures
    /// by [`new_load`](Self::new_load). Override it if the figures own memory that is worth
    /// keeping.
    ///
    /// A [dedicated](crate::Builder::dedicate) worker has windows of its own, which end after the
    /// [period](crate::Builder::period) or on request. Its figures are emptied too, although they
    /// are not reported.
    ///
    /// [used]: crate::LoadView::used
    fn restart_load(&self, shard: ShardId, load: &mut Self::Load) {
        *load = self.new_load(shard);
    }

    /// Reports the figures of a shard to the balancer. The leader calls it while the figures are
    /// frozen, once for each shard that was [used] in the window and whose figures were emptied for
    /// it. Not called if the balancer [needs no figures](crate::Balancer::needs_figures).
    ///
    /// [used]: crate::LoadView::used
    fn report(&self, shard: ShardId, load: &Self::Load, out: &mut LoadReport<'_>) {
        let _ = (shard, load, out);
    }

    /// Passes the note of a wake-up to the state of `shard`: called before the turn that the
    /// wake-up causes, once for each [`WorkerCx::wake`]. Notes of one worker come in the order of
    /// its calls, while the shard stays with its holder.
    ///
    /// `None` means any number of wake-ups. It is passed if one came by [`Handle::wake`], or if
    /// more wake-ups were on their way to the worker than there is room for. Then the turn must
    /// check all inputs of the shard. The turn after [`on_acquire`](Self::on_acquire) must also
    /// check them, because notes are lost when a shard moves; `on_wake` is not called for that
    /// turn.
    ///
    /// [`Handle::wake`]: crate::Handle::wake
    fn on_wake(&self, shard: ShardId, state: &mut Self::Shard, note: Option<u32>) {
        let _ = (shard, state, note);
    }

    /// Called before about every 16th turn of a worker, before it sleeps, and after it slept. A
    /// worker on which it panicked does not call it again.
    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        let _ = cx;
    }

    /// Called when `shard` comes to a worker: at the start and by each move.
    fn on_acquire(&self, cx: &mut WorkerCx<'_>, shard: ShardId, state: &mut Self::Shard) {
        let _ = (cx, shard, state);
    }

    /// Called when `shard` leaves a worker: by each move and at the end.
    fn on_release(&self, cx: &mut WorkerCx<'_>, shard: ShardId, state: &mut Self::Shard) {
        let _ = (cx, shard, state);
    }

    /// Answers a panic in the code of `shard`. A panic in here counts as
    /// [`PanicPolicy::Retire`].
    fn on_panic(
        &self,
        shard: ShardId,
        state: &mut Self::Shard,
        payload: PanicPayload,
    ) -> PanicPolicy {
        let _ = (shard, state, payload);
        PanicPolicy::Retire
    }
}
