//! A ball that two processors throw to each other, beside other processors that are idle or busy.

use rast::msgpass::{Builder, Cx, Next, Process, Receive, graph};

use super::span::{Span, measured};
use crate::workers::Sample;

/// Round trips that do not count. After them, all other processors have had their first turn.
const WARM_UP: u64 = 1000;

/// The number of other processors, and what their ping returns.
macro_rules! ping_pong {
    ($module:ident, $count:expr, $next:expr) => {
        pub(super) mod $module {
            use super::*;

            graph! {
                pub(in super::super) graph Table {
                    processors { left: Left [source], right: Right, beside: [Beside; $count] }
                    edges {
                        left -> right: u64;
                        right -> left: u64 [unbounded];
                        ingress -> beside: u64 [cap = 1];
                    }
                }
            }

            pub(in super::super) struct Left {
                /// Round trips to come, and how many of them count.
                left: u64,
                count: u64,
                span: Span,
            }
            pub(in super::super) struct Right;
            pub(in super::super) struct Beside;

            impl Process<Table> for Left {
                fn ping(&mut self, cx: &mut Cx<'_, Table, Self>) -> Next {
                    cx.to::<Right>().send(self.left);
                    Next::Idle
                }
            }
            impl Receive<Table, Right, u64> for Left {
                fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
                    self.left -= 1;
                    if self.left == self.count {
                        self.span.begin();
                    }
                    match self.left {
                        0 => self.span.end(),
                        _ => cx.to::<Right>().send(ball + 1),
                    }
                }
            }
            impl Process<Table> for Right {}
            impl Receive<Table, Left, u64> for Right {
                fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
                    cx.to::<Left>().send(ball + 1);
                }
            }
            impl Process<Table> for Beside {
                fn ping(&mut self, _: &mut Cx<'_, Table, Self>) -> Next {
                    $next
                }
            }
            impl Receive<Table, rast::msgpass::Ingress, u64> for Beside {
                fn receive(&mut self, _: u64, _: &mut Cx<'_, Table, Self>) {}
            }

            /// So many round trips with these settings.
            pub(in super::super) fn run(
                ops: u64,
                setting: impl FnOnce(Builder<Table>) -> Builder<Table>,
            ) -> Sample {
                measured(ops, |span| {
                    let left = Left {
                        left: ops + WARM_UP,
                        count: ops,
                        span,
                    };
                    let beside = (0..$count).map(|_| Beside);
                    let builder = Table::builder(left, Right, beside);
                    setting(builder).start().expect("a valid graph")
                })
            }
        }
    };
}

ping_pong!(beside_one_idle, 1, Next::Idle);
ping_pong!(beside_100_000_idle, 100_000, Next::Idle);
ping_pong!(beside_64_busy, 64, Next::Again);
