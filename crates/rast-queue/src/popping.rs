//! The common parts of the iterators of [`Queue`](crate::Queue) and
//! [`ListQueue`](crate::list::ListQueue).

/// Defines `Drain` and `IntoIter` of a queue that has `pop`. Each queue implements `Iterator` for
/// `IntoIter` itself, because they differ in `size_hint`.
macro_rules! popping_iterators {
    ($Queue:ident) => {
        #[doc = concat!("Pops until it first finds the queue empty; made by [`", stringify!($Queue), "::drain`].")]
        #[must_use = "pops only what it is asked for; to empty the queue, run it to its end"]
        pub struct Drain<'a, T, A: Allocator = Global> {
            /// `None` once the queue was found empty.
            queue: Option<&'a $Queue<T, A>>,
        }

        impl<T, A: Allocator> Iterator for Drain<'_, T, A> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                let item = self.queue?.pop();
                if item.is_none() {
                    self.queue = None;
                }
                item
            }
        }

        impl<T, A: Allocator> FusedIterator for Drain<'_, T, A> {}

        impl<T, A: Allocator> fmt::Debug for Drain<'_, T, A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Drain")
                    .field("is_finished", &self.queue.is_none())
                    .finish()
            }
        }

        /// The items of a queue, front to back; made by its `into_iter`.
        #[must_use = "iterators are lazy"]
        pub struct IntoIter<T, A: Allocator = Global> {
            queue: $Queue<T, A>,
        }

        impl<T, A: Allocator> FusedIterator for IntoIter<T, A> {}

        impl<T, A: Allocator> IntoIterator for $Queue<T, A> {
            type Item = T;
            type IntoIter = IntoIter<T, A>;

            fn into_iter(self) -> IntoIter<T, A> {
                IntoIter { queue: self }
            }
        }
    };
}

pub(crate) use popping_iterators;
