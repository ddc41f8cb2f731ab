//! The weight of a message, for edges whose capacity is in bytes.

/// The weight of a message, in bytes or in any other unit: for edges with `bytes = N`.
///
/// A pair of instances has room while its queued messages weigh less than `N`, and while there are
/// fewer than `cap` of them. A handler that runs may send its burst, each message of any weight. So
/// queued messages weigh less than `N` plus one burst, which is one message unless declared.
///
/// ```
/// use rast_msgpass::{Cx, Ingress, Process, Receive, Weight, graph};
///
/// struct Page(Vec<u8>);
/// impl Weight for Page {
///     fn weight(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// struct Fetcher;
/// struct Indexer(usize);
/// graph! {
///     graph Crawl {
///         processors { fetcher: Fetcher, indexer: Indexer }
///         edges {
///             ingress -> fetcher: usize;
///             fetcher -> indexer: Page [bytes = 65_536];
///         }
///     }
/// }
/// impl Process<Crawl> for Fetcher {}
/// impl Receive<Crawl, Ingress, usize> for Fetcher {
///     fn receive(&mut self, length: usize, cx: &mut Cx<'_, Crawl, Self>) {
///         cx.to::<Indexer>().send(Page(vec![0; length]));
///     }
/// }
/// impl Process<Crawl> for Indexer {}
/// impl Receive<Crawl, Fetcher, Page> for Indexer {
///     fn receive(&mut self, page: Page, _: &mut Cx<'_, Crawl, Self>) {
///         self.0 += page.0.len();
///     }
/// }
///
/// let app = Crawl::builder(Fetcher, Indexer(0)).start()?;
/// let lengths = app.ingress::<Fetcher, usize>();
/// (1..=10).for_each(|length| lengths.send(length * 10_000).unwrap());
/// let report = app.drain(std::time::Duration::from_secs(10))?;
/// assert_eq!(report.take_states::<Crawl, Indexer>()[0].0, 550_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "an edge with `bytes` carries `{Self}`, which does not implement `Weight`",
    label = "has no weight",
    note = "write `impl Weight for {Self}`, or bound the edge by `cap` alone"
)]
pub trait Weight {
    /// Returns the weight. Called once per message, by the sender; it must return soon.
    fn weight(&self) -> usize;
}

impl Weight for String {
    /// Returns the length in bytes.
    fn weight(&self) -> usize {
        self.len()
    }
}

impl<T> Weight for Vec<T> {
    /// Returns the size of the items, without memory that they own.
    fn weight(&self) -> usize {
        size_of_val(self.as_slice())
    }
}

impl<T> Weight for Box<[T]> {
    /// Returns the size of the items, without memory that they own.
    fn weight(&self) -> usize {
        size_of_val(&**self)
    }
}
