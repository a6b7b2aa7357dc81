//! One reader: a task that waits for entries of many streams at once, and tells its followers.
//!
//! It does what the reader on a thread does for one stream: it looks whether the stream is there,
//! gives up on one that says nothing for too long, and ends after the last entry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::followers::{Followers, Full};
use super::reader_connection::{Connection, Entries, PAUSE, Part};
use super::stream_reader::{Message, Shared};
use crate::stores::streams::{EVENTS_WAITING_MAX, Followed, report};
use crate::stores::{Backend, StoreError};
use crate::stream_event::Event;

/// How long one wait for entries takes, and how long a silent stream is believed to be there.
const BLOCK: Duration = Duration::from_secs(5);
/// How long a reader stays when its last client has left: connecting takes several round trips.
const STAY: Duration = Duration::from_secs(1);

/// A task that reads many streams.
pub(super) struct Reader {
    shared: Arc<Shared>,
    number: u64,
    messages: UnboundedReceiver<Message>,
    followers: Followers,
    /// Those whose clients accept nothing more for now.
    waiting: JoinSet<Waited>,
}

/// Who has waited for room, and whether there is some.
struct Waited {
    stream: String,
    number: u64,
    has_room: bool,
}

impl Drop for Reader {
    /// Also if it panics: who comes next gets another one.
    fn drop(&mut self) {
        self.shared.strike_out(self.number);
    }
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: u64,
        messages: UnboundedReceiver<Message>,
    ) -> Self {
        Self {
            shared,
            number,
            messages,
            followers: Followers::default(),
            waiting: JoinSet::new(),
        }
    }

    /// Reads until nobody follows anything, on one connection after the other.
    pub(super) async fn run(mut self) {
        loop {
            match Connection::open(&self.shared.redis_url).await {
                Ok(connection) => {
                    let read = self.read(&connection).await;
                    connection.close().await;
                    match read {
                        Ok(Retired) => return,
                        Err(error) => tracing::warn!(%error, "a stream reader connects anew"),
                    }
                    // A server that accepts connections and refuses commands isn't hurried.
                    sleep(PAUSE).await;
                    self.followers.see_none();
                }
                Err(error) => {
                    self.end_all(error);
                    if self.stays_empty().await {
                        return;
                    }
                }
            }
        }
    }

    async fn read(&mut self, connection: &Connection) -> Result<Retired, StoreError> {
        loop {
            self.take_messages();
            for (stream, count) in self.followers.end_idle(Instant::now()) {
                self.ended(&stream, count, &Ok(Followed::Idle));
            }
            if self.followers.is_empty() {
                if self.stays_empty().await {
                    return Ok(Retired);
                }
                continue;
            }
            let unseen = self.followers.unseen(Instant::now(), BLOCK);
            if !unseen.is_empty() {
                self.look(connection, unseen).await?;
                continue;
            }
            let now = Instant::now();
            let (streams, after) = self.followers.begin_read(now);
            let wait = self.followers.quiet_time(now, BLOCK);
            if streams.is_empty() {
                // Nothing in time is as good as something.
                let _elapsed = timeout(wait, self.changed()).await;
                continue;
            }
            for part in self.next(connection, streams, after, wait).await? {
                self.tell(&part.stream, part.entries);
            }
        }
    }

    /// Waits for entries, or for a change of what is to be read.
    async fn next(
        &mut self,
        connection: &Connection,
        streams: Vec<String>,
        after: Vec<String>,
        wait: Duration,
    ) -> Result<Vec<Part>, StoreError> {
        let read = connection.read(streams, after, wait);
        tokio::pin!(read);
        tokio::select! {
            read = &mut read => return read,
            () = self.changed() => (),
        }
        tokio::select! {
            read = &mut read => read,
            never = connection.unblock(&self.shared.client) => match never {},
        }
    }

    /// Waits until something else is to be read.
    async fn changed(&mut self) {
        loop {
            let is_changed = tokio::select! {
                Some(message) = self.messages.recv() => self.take(message),
                Some(waited) = self.waiting.join_next() => self.go_on(waited),
            };
            if is_changed {
                return;
            }
        }
    }

    /// Takes what has come in meanwhile.
    fn take_messages(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        while let Some(waited) = self.waiting.try_join_next() {
            self.go_on(waited);
        }
    }

    /// Whether something else is to be read now.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Join(stream, follower) => {
                self.followers.join(stream, follower);
                true
            }
            Message::Leave(stream, number) => {
                if self.followers.leave(&stream, number) {
                    self.shared.release(self.number, &stream, 1);
                }
                // Reading for nobody is harmless while somebody else is read for.
                self.followers.is_empty()
            }
        }
    }

    /// As [`Self::take`], for one who had no room.
    fn go_on(&mut self, waited: Result<Waited, JoinError>) -> bool {
        let Waited {
            stream,
            number,
            has_room,
        } = match waited {
            Ok(waited) => waited,
            Err(error) => {
                tracing::error!(%error, "waiting for a client failed");
                return false;
            }
        };
        if has_room {
            self.followers.resume(&stream, number, Instant::now());
        } else if self.followers.leave(&stream, number) {
            tracing::info!(stream, "a client accepts nothing: it is told no more");
            self.shared.release(self.number, &stream, 1);
        }
        true
    }

    /// Waits a while for somebody; true if the reader may end, since nobody came.
    async fn stays_empty(&mut self) -> bool {
        loop {
            match timeout(STAY, self.messages.recv()).await {
                Ok(Some(message)) => {
                    self.take(message);
                    if !self.followers.is_empty() {
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(_elapsed) => {
                    if self.shared.retire(self.number) {
                        return true;
                    }
                }
            }
        }
    }

    /// Asks whether streams are there, as the original does before each wait.
    async fn look(
        &mut self,
        connection: &Connection,
        streams: Vec<String>,
    ) -> Result<(), StoreError> {
        for (stream, kind) in connection.kinds(streams).await? {
            match &*kind {
                "stream" => self.followers.see(&stream, Instant::now()),
                "none" => {
                    let count = self.followers.end(&stream);
                    self.ended(&stream, count, &Ok(Followed::Gone));
                }
                other => {
                    let count = self.followers.end(&stream);
                    let reason = format!("its key has a {other}");
                    let error = StoreError::refused(Backend::Redis, reason);
                    self.ended(&stream, count, &Err(error));
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, stream: &str, entries: Result<Entries, StoreError>) {
        let now = Instant::now();
        match entries {
            Ok(entries) => {
                let (ended, full) = self.followers.tell(stream, entries, now);
                self.ended(stream, ended, &Ok(Followed::ToItsEnd));
                for full in full {
                    self.waiting.spawn(wait_for_room(full));
                }
            }
            Err(error) => {
                let count = self.followers.end(stream);
                self.ended(stream, count, &Err(error));
            }
        }
    }

    /// Nobody can be told anything.
    fn end_all(&mut self, error: StoreError) {
        self.take_messages();
        let followed = Err(error);
        for (stream, count) in self.followers.end_all() {
            self.ended(&stream, count, &followed);
        }
    }

    fn ended(&self, stream: &str, count: usize, followed: &Result<Followed, StoreError>) {
        if count > 0 {
            report(stream, followed);
            self.shared.release(self.number, stream, count);
        }
    }
}

/// Nobody follows anything, and the reader is out of the registry.
struct Retired;

/// Waits until half of a client's events have been accepted, but not for ever for any.
async fn wait_for_room(full: Full) -> Waited {
    let Full {
        stream,
        number,
        events,
        patience,
    } = full;
    let mut has_room = true;
    for free in 1..=EVENTS_WAITING_MAX / 2 {
        has_room = is_free(&events, free, patience).await;
        if !has_room {
            break;
        }
    }
    Waited {
        stream,
        number,
        has_room,
    }
}

async fn is_free(events: &Sender<Event>, free: usize, patience: Duration) -> bool {
    matches!(
        timeout(patience, events.reserve_many(free)).await,
        Ok(Ok(_))
    )
}
