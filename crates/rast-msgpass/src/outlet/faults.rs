//! Panics of sends that the graph does not declare.

use super::Out;
use crate::graph::End;

impl<M: Send + 'static> Out<M> {
    #[cold]
    pub(super) fn burst_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: an invocation sent more than its burst of {}; \
             declare [burst = {}] or more on the edge, or use `try_send`",
            self.shared.graph,
            self.info,
            self.info.burst,
            self.info.burst + 1,
        )
    }

    #[cold]
    pub(super) fn target_fault(&self, index: usize) -> ! {
        let what = match self.info.to {
            End::Egress => "lane",
            End::Ingress | End::Processor(_) => "replica",
        };
        panic!(
            "graph `{}`, edge {}: there is no {what} {index}, only {}",
            self.shared.graph,
            self.info,
            self.targets(),
        )
    }

    #[cold]
    pub(crate) fn request_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: an answer without a request of this client in hand; \
             a request is answered once, by its handler or by the `ReplyTo` that it took",
            self.shared.graph, self.info,
        )
    }

    #[cold]
    pub(super) fn ticket_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: a `ReplyTo` of another instance; the instance that received \
             the request answers it",
            self.shared.graph, self.info,
        )
    }

    #[cold]
    pub(super) fn amplification_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: the handling of answers sends more requests than it takes answers, \
             which outgrows any bound; look at `room` first, or use `try_send`",
            self.shared.graph, self.info,
        )
    }
}
