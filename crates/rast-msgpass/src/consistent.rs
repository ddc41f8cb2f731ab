//! Choosing a replica by consistent hashing, with the user's hash function.
//!
//! The method is jump consistent hash (Lamping and Veach, 2014), with integer division instead of
//! floating point. If one replica is added to `n`, it takes one in `n + 1` keys from each of them,
//! and no key moves between the others.

use core::hash::{BuildHasher, Hash};

use crate::credit::consistent_replica_of;
use crate::cx::{Chosen, Port};
use crate::graph::{Edge, Ingress, Node, Replicated};
use crate::ingress::{IngressPort, IngressSender};

impl<'a, G: Node<P> + Node<To>, P, To> Port<'a, G, P, To> {
    /// Chooses the replica for a key by the user's hash function: equal keys get the same replica,
    /// that of [`consistent_replica_of`](crate::consistent_replica_of). If one replica is added to
    /// `n`, about one key in `n + 1` moves to it, and no other key moves.
    ///
    /// [`key`](Self::key) is cheaper, for keys that are numbers.
    ///
    /// ```
    /// use core::hash::BuildHasherDefault;
    /// use std::hash::DefaultHasher;
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Router;
    /// # struct Shelf;
    /// # graph! {
    /// #     graph App {
    /// #         processors { router: Router, shelf: [Shelf; 3] }
    /// #         edges { ingress -> router: String; router -> shelf: String; }
    /// #     }
    /// # }
    /// # impl Process<App> for Router {}
    /// # impl Process<App> for Shelf {}
    /// # impl Receive<App, Router, String> for Shelf {
    /// #     fn receive(&mut self, _: String, _: &mut Cx<'_, App, Self>) {}
    /// # }
    ///
    /// // The same in each run of the program.
    /// type Fixed = BuildHasherDefault<DefaultHasher>;
    ///
    /// impl Receive<App, Ingress, String> for Router {
    ///     fn receive(&mut self, title: String, cx: &mut Cx<'_, App, Self>) {
    ///         cx.to::<Shelf>().hashed(&title[..1], &Fixed::default()).send(title);
    ///     }
    /// }
    /// # let app = App::builder(Router, [Shelf, Shelf, Shelf]).start()?;
    /// # app.ingress::<Router, String>().send("a title".to_owned())?;
    /// # app.drain(std::time::Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hashed<K, S>(self, key: &K, hasher: &S) -> Chosen<'a, G, P, To>
    where
        G: Replicated<To>,
        K: Hash + ?Sized,
        S: BuildHasher,
    {
        self.at_hash(hasher.hash_one(key))
    }
}

impl<G: Node<Ingress> + Node<P>, P, M: Edge<G, Ingress, P>> IngressSender<G, P, M> {
    /// Chooses the replica for a key by the user's hash function, as [`Port::hashed`].
    #[must_use]
    pub fn hashed<K, S>(&self, key: &K, hasher: &S) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
        K: Hash + ?Sized,
        S: BuildHasher,
    {
        self.at(consistent_replica_of(hasher.hash_one(key), self.replicas()))
    }
}
