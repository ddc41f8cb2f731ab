//! A timer for each call site.
//!
//! Source: the original RAST design, 2.6 and 2.7. It requires that a timer be called from one call
//! site only, because it predicts one stream of calls. Here the call site creates the timer, so two
//! call sites cannot share one by mistake.

/// Runs `body` with a timer that belongs to this call site; each thread has its own timer.
///
/// `at_site!(TYPE = INITIAL, |timer| BODY)`: the timer is made when a thread executes this call for
/// the first time, and `timer` is a `&mut` to it. The type cannot be inferred, because it is the
/// type of a thread-local. All instances of a generic function share one call site.
///
/// Costs a thread-local access in addition to the timer's own cost.
///
/// # Panics
///
/// If the body executes the same call site again, for example by recursion.
///
/// ```
/// use rast_timers::{MonotonicClock, Nanos, PeriodicTimer, Tick, TimerConfig};
/// use rast_timers::{Clock, at_site};
///
/// let tick = Tick::new();
/// let since_last_call = || {
///     at_site!(
///         PeriodicTimer<MonotonicClock> =
///             PeriodicTimer::new(MonotonicClock::new(), TimerConfig::new()),
///         |timer| timer.elapsed(&tick)
///     )
/// };
/// assert_eq!(since_last_call(), Nanos::ZERO); // the first call starts the series
/// let waits = MonotonicClock::new().now();
/// while MonotonicClock::new().now() == waits {}
/// tick.publish(MonotonicClock::new().now());
/// assert!(since_last_call() > Nanos::ZERO);
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
