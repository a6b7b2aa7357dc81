//! Our end of a conversation with a runtime's first process: one task that sends what others order, and
//! hands on how commands ended.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::alarm::moment_us;
use super::fence::Guard;
use super::launch::{Launched, RuntimeProcess};
use super::packets;
use super::wire::{CommandEnd, FromSupervisor, PACKET_BYTES_MAX, ToSupervisor};
use crate::ports::locks::{Hold, Reliance};

/// What the supervisor says is small.
const ANSWER_BYTES_MAX: usize = 4096;

/// A runtime's conversation. When it is dropped, the runtime ends.
pub(super) struct Connection {
    orders: mpsc::UnboundedSender<Order>,
    closed: watch::Receiver<bool>,
    next_id: AtomicU64,
}

enum Order {
    Exec {
        id: u64,
        packet: Vec<u8>,
        descriptors: Vec<OwnedFd>,
        ended: oneshot::Sender<CommandEnd>,
        reliance: Option<Reliance>,
    },
    Prolong {
        id: u64,
        until_us: u64,
    },
    Kill {
        id: u64,
    },
    ShutDown,
}

/// Why a command wasn't ordered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotOrdered {
    /// Its arguments and environment are more than a packet.
    TooLong,
}

/// A command that was ordered.
pub(super) struct Ordered {
    /// How it ended; an error when the runtime ended before.
    pub(super) ended: oneshot::Receiver<CommandEnd>,
    /// Kills it. It may be called when it has ended.
    pub(super) kill: Box<dyn FnOnce() + Send + Sync>,
}

impl Connection {
    /// Goes on with a runtime that was started.
    pub(super) fn serve(launched: Launched) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        let (closing, closed) = watch::channel(false);
        let conversation = Conversation {
            socket: launched.socket,
            orders: orders.downgrade(),
            outgoing: VecDeque::new(),
            commands: HashMap::new(),
        };
        tokio::spawn(conversation.hold(queue, launched.process, closing));
        Self {
            orders,
            closed,
            next_id: AtomicU64::new(1),
        }
    }

    /// Has the runtime ended?
    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Orders a command, with its ends of pipes and the hold under which it runs, if there is one.
    ///
    /// # Errors
    /// When it doesn't fit into a packet.
    pub(super) fn exec(
        &self,
        command: super::wire::Command,
        descriptors: Vec<OwnedFd>,
        hold: Option<Hold>,
    ) -> Result<Ordered, NotOrdered> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let guard = hold.as_ref().map(Guard::of);
        let packet = ToSupervisor::Exec { id, guard, command }.encode();
        if packet.len() > PACKET_BYTES_MAX {
            return Err(NotOrdered::TooLong);
        }
        let (sender, ended) = oneshot::channel();
        let order = Order::Exec {
            id,
            packet,
            descriptors,
            ended: sender,
            reliance: hold.and_then(|hold| hold.reliance),
        };
        // When the conversation is over, the order is dropped, and with it the sender of its end.
        let _over = self.orders.send(order);
        let orders = self.orders.downgrade();
        let kill = Box::new(move || {
            if let Some(orders) = orders.upgrade() {
                let _over = orders.send(Order::Kill { id });
            }
        });
        Ok(Ordered { ended, kill })
    }

    /// Ends the runtime, and waits until nothing of it is left.
    pub(super) async fn shut_down(&self) {
        let _over = self.orders.send(Order::ShutDown);
        let mut closed = self.closed.clone();
        // An error says that the task is gone, and so is the runtime.
        drop(closed.wait_for(|closed| *closed).await);
    }
}

struct Conversation {
    socket: AsyncFd<OwnedFd>,
    /// Its own queue, for those who say something while a command runs. It keeps no runtime alive.
    orders: mpsc::WeakUnboundedSender<Order>,
    outgoing: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    commands: HashMap<u64, Awaited>,
}

/// A command that hasn't ended yet.
struct Awaited {
    ended: oneshot::Sender<CommandEnd>,
    _prolonging: Option<Prolonging>,
}

/// A task that tells the supervisor whenever a command's lease is prolonged, until this is dropped. It
/// is a task of its own, so that a command whose output nobody reads for a while lives as long as its lock.
struct Prolonging(AbortHandle);

impl Prolonging {
    fn begin(id: u64, mut reliance: Reliance, queue: mpsc::WeakUnboundedSender<Order>) -> Self {
        let task = tokio::spawn(async move {
            // When nobody says anything more, what was said last holds.
            while let Some(until) = reliance.changed().await {
                let Some(orders) = queue.upgrade() else {
                    return;
                };
                let until_us = moment_us(until);
                // When the conversation is over, so is the command.
                let _over = orders.send(Order::Prolong { id, until_us });
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Prolonging {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Conversation {
    async fn hold(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        process: RuntimeProcess,
        closing: watch::Sender<bool>,
    ) {
        if let Err(error) = self.talk(&mut orders).await {
            tracing::warn!(%error, "the conversation with a runtime broke; the runtime is ended");
        }
        orders.close();
        drop(self); // whoever waits for a command learns that the runtime is gone
        process.end().await;
        // Nobody may watch any more.
        let _unwatched = closing.send(true);
    }

    async fn talk(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> io::Result<()> {
        loop {
            let wants_to_send = !self.outgoing.is_empty();
            tokio::select! {
                order = orders.recv() => match order {
                    None | Some(Order::ShutDown) => return Ok(()),
                    Some(order) => self.take(order),
                },
                said = receive(&self.socket) => match said? {
                    Some(said) => self.hear(said)?,
                    None => return Err(io::Error::other("its first process is gone")),
                },
                ready = self.socket.ready(Interest::WRITABLE), if wants_to_send => {
                    ready?.clear_ready();
                }
            }
            self.send_all()?;
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Exec {
                id,
                packet,
                descriptors,
                ended,
                reliance,
            } => {
                // Only now, so that nothing is said of it before it was ordered.
                let prolonging =
                    reliance.map(|reliance| Prolonging::begin(id, reliance, self.orders.clone()));
                let awaited = Awaited {
                    ended,
                    _prolonging: prolonging,
                };
                self.commands.insert(id, awaited);
                self.outgoing.push_back((packet, descriptors));
            }
            Order::Prolong { id, until_us } => {
                let packet = ToSupervisor::Prolong { id, until_us }.encode();
                self.outgoing.push_back((packet, Vec::new()));
            }
            Order::Kill { id } => {
                let packet = ToSupervisor::Kill { id }.encode();
                self.outgoing.push_back((packet, Vec::new()));
            }
            Order::ShutDown => {} // taken by whoever reads the orders
        }
    }

    fn hear(&mut self, said: FromSupervisor) -> io::Result<()> {
        match said {
            FromSupervisor::Ended { id, end } => {
                if let Some(awaited) = self.commands.remove(&id) {
                    // Whoever was dropped doesn't want to know.
                    let _dropped = awaited.ended.send(end);
                }
                Ok(())
            }
            FromSupervisor::Here
            | FromSupervisor::Ready { .. }
            | FromSupervisor::NotReady { .. } => {
                Err(io::Error::other("its first process began again"))
            }
        }
    }

    /// Sends as much as the socket takes. It is asked itself: what the event loop knows is only when to
    /// try again.
    fn send_all(&mut self) -> io::Result<()> {
        while let Some((packet, descriptors)) = self.outgoing.front() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match packets::send(self.socket.get_ref(), packet, &descriptors) {
                Ok(()) => {
                    self.outgoing.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What the supervisor says next; `None` when it is gone.
pub(super) async fn receive(socket: &AsyncFd<OwnedFd>) -> io::Result<Option<FromSupervisor>> {
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let mut ready = socket.readable().await?;
        match ready.try_io(|socket| packets::receive(socket.get_ref(), &mut buffer)) {
            Ok(Ok(None)) => return Ok(None),
            // Its end is reset when it dies with something unread.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Ok(Ok(Some(received))) => {
                let said = FromSupervisor::decode(&buffer[..received.length]);
                return said.map(Some).map_err(io::Error::other);
            }
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => {}
        }
    }
}
