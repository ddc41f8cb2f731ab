//! A timer for each place in the code.
//!
//! Source: RAST 2.6 and 2.7 ask that a timer be called from one place alone,
//! because its prediction is that of one stream of calls. Here the place in the
//! code makes the timer, so two places cannot share one by mistake.

/// Runs `body` with a timer that belongs to this very place in the code, one
/// for each thread.
///
/// `at_site!(TYPE = INITIAL, |timer| BODY)`: the timer is made when a thread
/// comes here for the first time, and `timer` is a `&mut` to it. The type
/// cannot be inferred, because it becomes that of a thread-local. All instances
/// of a generic function are one place.
///
/// Costs a look at a thread-local beside the timer's own cost.
///
/// # Panics
///
/// If the body comes to the same place again, as by recursion.
///
/// ```
/// use rast_timers::{MonotonicClock, Nanos, PeriodicTimer, Tick, TimerConfig};
/// use rast_timers::{Clock, at_site};
///
/// let tick = Tick::new();
/// let since_last_turn = || {
///     at_site!(
///         PeriodicTimer<MonotonicClock> =
///             PeriodicTimer::new(MonotonicClock::new(), TimerConfig::new()),
///         |timer| timer.elapsed(&tick)
///     )
/// };
/// assert_eq!(since_last_turn(), Nanos::ZERO); // the first call starts the series
/// let waits = MonotonicClock::new().now();
/// while MonotonicClock::new().now() == waits {}
/// tick.publish(MonotonicClock::new().now());
/// assert!(since_last_turn() > Nanos::ZERO);
/// ```
#[macro_export]
macro_rules! at_site {
    ($timer:ty = $make:expr, |$name:ident| $body:expr $(,)?) => {{
        $crate::__private::local! {
            static SITE: $crate::__private::RefCell<$timer> =
                $crate::__private::RefCell::new($make);
        }
        SITE.with(|site| {
            let $name = &mut *site.borrow_mut();
            $body
        })
    }};
}
