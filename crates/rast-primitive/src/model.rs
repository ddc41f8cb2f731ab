//! One scenario, run by loom or by std.

/// Runs `f` under loom in every interleaving, or once under std.
pub fn model(f: impl Fn() + Send + Sync + 'static) {
    #[cfg(rast_loom)]
    loom::model(f);
    #[cfg(not(rast_loom))]
    f();
}
