//! The server: reactors, their listeners, start and stop.

use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rast::reactor::executor::block_on;
use rast::reactor::io::{Backend, GroupListener, ListenerGroup, TcpListener, Watermarks};
use rast::reactor::{Pool, PoolThread, Reactors, Spawned, Stopped, spawn_local_named};

use crate::ads::Ads;
use crate::api::Api;
use crate::conn::{Timeouts, serve};
use crate::edge::{self, Edge, Latencies};
use crate::events::{Event, Events};
use crate::model::resources;

/// How long a stop waits for connections.
const GRACE: Duration = Duration::from_secs(5);

/// The time limit of a request, from its first byte to its last.
const REQUEST: Duration = Duration::from_secs(30);
/// Connections that wait in the queue of a socket.
const BACKLOG: u32 = 4096;

/// How a server is set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The API's address, and that of the ads reactors.
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) backend: Backend,
    /// Reactor 0 and the ads reactors.
    pub(crate) reactors: usize,
    /// The core of each; the system chooses if there are none.
    pub(crate) cores: Vec<usize>,
    /// Active requests of an ads reactor.
    pub(crate) marks: Watermarks,
    /// Threads of the pool by class.
    pub(crate) threads: [usize; 3],
    /// Tasks of one policy that the pool queues.
    pub(crate) capacity: usize,
    /// What each thread of the pool does first.
    pub(crate) on_pool_thread: fn(PoolThread),
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) reactors: Reactors,
    pub(crate) group: ListenerGroup,
    /// Where the API listens.
    pub(crate) api: SocketAddr,
    pub(crate) events: Arc<Events>,
    accepts: Vec<Spawned<()>>,
}

impl Server {
    /// Starts the reactors; returns when all of them listen.
    pub(crate) fn start(settings: Settings) -> Result<Self, Box<dyn Error>> {
        let events = Arc::new(Events::default());
        let slow = Arc::clone(&events);
        let pool = Pool::builder()
            .threads(settings.threads)
            .capacity(settings.capacity)
            .on_thread_start(settings.on_pool_thread);
        let reactors = Reactors::builder()
            .name("adserver")
            .number(settings.reactors)
            .cores(settings.cores)
            .backend(settings.backend)
            .pool(pool)
            .resources(resources())
            .on_slow_poll(move |_| slow.add(Event::SlowPoll))
            .build()?;
        let [api, ads] = settings.addresses;
        let mut server = Self {
            group: ListenerGroup::builder(ads, settings.marks)
                .backlog(BACKLOG)
                .bind()?,
            reactors,
            api,
            events,
            accepts: Vec::new(),
        };
        server.listen()?;
        Ok(server)
    }

    fn listen(&mut self) -> Result<(), Box<dyn Error>> {
        for reactor in (0..self.reactors.number()).filter_map(|at| self.reactors.reactor(at)) {
            let events = Arc::clone(&self.events);
            if reactor.index() == 0 {
                let api = self.api;
                let begun = reactor.spawn_named("api", move || async move {
                    let listener = TcpListener::bind(api)?;
                    let address = listener.local_addr()?;
                    let accepts = spawn_local_named("api accepts", accept_api(listener, events));
                    Ok::<_, std::io::Error>((address, accepts))
                });
                let (address, accepts) = block_on(begun)??;
                self.api = address;
                self.accepts.push(accepts);
            } else {
                let group = self.group.clone();
                let begun = reactor.spawn_named("ads", move || async move {
                    let listener = group.listener()?;
                    let edge = Rc::new(Edge::new(listener.requests(), events));
                    edge::publish(&edge);
                    let accepts = accept_ads(listener, edge);
                    Ok::<_, std::io::Error>(spawn_local_named("ads accepts", accepts))
                });
                self.accepts.push(block_on(begun)??);
            }
        }
        Ok(())
    }

    /// Where the ads reactors listen.
    pub(crate) fn ads(&self) -> SocketAddr {
        self.group.local_addr()
    }

    /// Takes the latencies of the requests since the last call.
    pub(crate) fn take_latencies(&self) -> Result<Latencies, Box<dyn Error>> {
        let reactor = self.reactors.reactor(0).ok_or("no reactor for the API")?;
        Ok(block_on(reactor.spawn(edge::take_latencies))?)
    }

    /// Accepts no more, waits for connections that are open, and stops.
    pub(crate) fn stop(self) -> Stopped {
        for accepts in &self.accepts {
            accepts.abort();
        }
        self.reactors.stop(GRACE)
    }
}

async fn accept_api(listener: TcpListener, events: Arc<Events>) {
    let site = Rc::new(Api::new(events));
    let timeouts = Timeouts::new(REQUEST);
    loop {
        // An error is one of a connection, or a lack of descriptors, after which accept rests.
        if let Ok(stream) = listener.accept().await {
            let served = serve(stream, Rc::clone(&site), 0, timeouts.clone(), None);
            spawn_local_named("api connection", served).detach();
        }
    }
}

async fn accept_ads(listener: GroupListener, edge: Rc<Edge>) {
    let reactor = rast::reactor::current().map_or(0, |reactor| reactor.index());
    let site = Rc::new(Ads { edge });
    let timeouts = Timeouts::new(REQUEST);
    loop {
        if let Ok(stream) = listener.accept().await {
            // Counted before the next accept, which the count may put off.
            let active = site.edge.requests.begin();
            let served = serve(
                stream,
                Rc::clone(&site),
                reactor,
                timeouts.clone(),
                Some(active),
            );
            spawn_local_named("ads connection", served).detach();
        }
    }
}
