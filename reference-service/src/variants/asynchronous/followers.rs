//! Who follows which streams on one connection, and how far each has come. Bookkeeping without a
//! server: what to read next, and whom to tell what was read.
//!
//! A stream is read once for all who follow it, from the one on who is the furthest behind. A
//! client that accepts nothing is left out until it does: its entries wait in Redis, and not here.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::entry_id::EntryId;
use crate::stores::REDIS_WAIT;
use crate::stream_event::{Entry, Event};

/// One who follows a stream.
#[derive(Debug)]
pub(super) struct Follower {
    number: u64,
    events: Sender<Event>,
    /// The last entry that it was told.
    told: EntryId,
    idle_max: Duration,
    /// When it was told something, or a read first began to read for it.
    heard: Instant,
    state: State,
}

/// What becomes of an entry that a follower doesn't know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has come, or has room again, since the read began: what that brings may be from behind
    /// the entries that it needs first.
    NextRead,
    /// It is told.
    Reading,
    /// It has no room.
    Full,
    /// It was told the last entry.
    Ended,
}

impl Follower {
    /// One who is to be told what comes after an entry.
    pub(super) fn new(
        number: u64,
        events: Sender<Event>,
        told: EntryId,
        idle_max: Duration,
    ) -> Self {
        Self {
            number,
            events,
            told,
            idle_max,
            heard: Instant::now(),
            state: State::NextRead,
        }
    }

    /// Tells it of an entry, if it doesn't know it; false if it has no room.
    fn tell(&mut self, id: EntryId, event: Option<&Event>, now: Instant) -> bool {
        if self.state != State::Reading || id <= self.told {
            return true;
        }
        if let Some(event) = event {
            match self.events.try_send(event.clone()) {
                Ok(()) => (),
                // It is about to be taken out.
                Err(TrySendError::Closed(_)) => return true,
                Err(TrySendError::Full(_)) => {
                    self.state = State::Full;
                    return false;
                }
            }
        }
        self.told = id;
        self.heard = now;
        if let Some(Event::End(_)) = event {
            self.state = State::Ended;
        }
        true
    }

    fn has_room(&self) -> bool {
        self.state != State::Full
    }

    /// It is read for from now on.
    fn begin_reading(&mut self, now: Instant) {
        if self.state == State::NextRead {
            // What it has not been read isn't silent yet.
            self.heard = now;
        }
        self.state = State::Reading;
    }

    /// When it has heard nothing for too long, if it hears nothing. Before it is read for, it waits
    /// for Redis, too, as any command does.
    fn idle_at(&self) -> Instant {
        let wait = match self.state {
            State::NextRead => REDIS_WAIT,
            State::Reading | State::Full | State::Ended => Duration::ZERO,
        };
        self.heard + self.idle_max + wait
    }
}

/// A follower that accepts nothing more for now.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) stream: String,
    pub(super) number: u64,
    /// To wait for room on.
    pub(super) events: Sender<Event>,
    /// How long it may take to accept something.
    pub(super) patience: Duration,
}

/// A stream that is followed.
#[derive(Debug, Default)]
struct Stream {
    followers: Vec<Follower>,
    /// When it was last known to be there.
    seen: Option<Instant>,
}

/// All who follow streams on one connection.
#[derive(Debug, Default)]
pub(super) struct Followers {
    streams: HashMap<String, Stream>,
}

impl Followers {
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn join(&mut self, stream: String, follower: Follower) {
        let stream = self.streams.entry(stream).or_default();
        stream.followers.push(follower);
    }

    /// Takes one out; false if it is out already.
    pub(super) fn leave(&mut self, stream: &str, number: u64) -> bool {
        self.take_out(stream, |follower| follower.number == number) > 0
    }

    /// Takes out all of a stream; how many.
    pub(super) fn end(&mut self, stream: &str) -> usize {
        self.take_out(stream, |_| true)
    }

    /// Takes out everybody: each stream, and how many followed it.
    pub(super) fn end_all(&mut self) -> Vec<(String, usize)> {
        let streams = self.streams.drain();
        streams
            .map(|(stream, state)| (stream, state.followers.len()))
            .collect()
    }

    /// Takes out whoever has heard nothing for too long: each stream, and how many.
    pub(super) fn end_idle(&mut self, now: Instant) -> Vec<(String, usize)> {
        let is_idle = |follower: &Follower| follower.has_room() && follower.idle_at() <= now;
        let idle = self.streams.iter().filter_map(|(stream, state)| {
            let any = state.followers.iter().any(is_idle);
            any.then(|| stream.clone())
        });
        let idle: Vec<String> = idle.collect();
        idle.into_iter()
            .map(|stream| {
                let ended = self.take_out(&stream, is_idle);
                (stream, ended)
            })
            .collect()
    }

    fn take_out(&mut self, stream: &str, is_out: impl Fn(&Follower) -> bool) -> usize {
        let Some(state) = self.streams.get_mut(stream) else {
            return 0;
        };
        let before = state.followers.len();
        state.followers.retain(|follower| !is_out(follower));
        let left = state.followers.len();
        if left == 0 {
            self.streams.remove(stream);
        }
        before - left
    }

    /// One that was full has room again.
    pub(super) fn resume(&mut self, stream: &str, number: u64, now: Instant) {
        let state = self.streams.get_mut(stream);
        let followers = state.into_iter().flat_map(|state| &mut state.followers);
        for follower in followers.filter(|follower| follower.number == number) {
            follower.state = State::NextRead;
            follower.heard = now;
        }
    }

    /// Begins a read: each stream that somebody has room for, and the entry after which.
    pub(super) fn begin_read(&mut self, now: Instant) -> (Vec<String>, Vec<String>) {
        let wanted = self.streams.iter_mut().filter_map(|(stream, state)| {
            let followers = state.followers.iter_mut();
            let have_room = followers.filter(|follower| follower.has_room());
            let told = have_room.map(|follower| {
                follower.begin_reading(now);
                follower.told
            });
            Some((stream.clone(), told.min()?.to_string()))
        });
        wanted.unzip()
    }

    /// Streams of which nobody knows that they are still there, if there is one that was last
    /// known to be `max_age` ago: then also those that would be next, so that they are asked for
    /// together.
    pub(super) fn unseen(&self, now: Instant, max_age: Duration) -> Vec<String> {
        let older_than = |age: Duration| {
            move |state: &Stream| {
                state
                    .seen
                    .is_none_or(|seen| now.duration_since(seen) >= age)
            }
        };
        if !self.streams.values().any(older_than(max_age)) {
            return Vec::new();
        }
        let is_old = older_than(max_age / 2);
        let old = self.streams.iter().filter(|(_, state)| is_old(state));
        old.map(|(stream, _)| stream.clone()).collect()
    }

    /// A stream is there.
    pub(super) fn see(&mut self, stream: &str, now: Instant) {
        if let Some(state) = self.streams.get_mut(stream) {
            state.seen = Some(now);
        }
    }

    /// Nobody knows of any stream whether it is there.
    pub(super) fn see_none(&mut self) {
        for state in self.streams.values_mut() {
            state.seen = None;
        }
    }

    /// How long nothing needs to be done if nothing is heard: until somebody has heard nothing for
    /// too long, or a stream was last seen `max_age` ago.
    pub(super) fn quiet_time(&self, now: Instant, max_age: Duration) -> Duration {
        let ends = |state: &Stream| {
            let waiting = state
                .followers
                .iter()
                .filter(|follower| follower.has_room());
            waiting.map(Follower::idle_at).min()
        };
        let look = |state: &Stream| state.seen.map_or(now, |seen| seen + max_age);
        let times = self.streams.values();
        let next = times.map(|state| ends(state).map_or(look(state), |end| end.min(look(state))));
        next.min()
            .map_or(max_age, |next| next.saturating_duration_since(now))
    }

    /// Tells a stream's entries to those who don't know them. Gives how many were told the last
    /// one, who are out then, and who have no more room.
    pub(super) fn tell(
        &mut self,
        stream: &str,
        entries: Vec<(EntryId, Entry)>,
        now: Instant,
    ) -> (usize, Vec<Full>) {
        let Some(state) = self.streams.get_mut(stream) else {
            return (0, Vec::new());
        };
        state.seen = Some(now);
        let mut full = Vec::new();
        for (id, entry) in entries {
            let event = Event::read(entry);
            for follower in &mut state.followers {
                if !follower.tell(id, event.as_ref(), now) {
                    full.push(Full {
                        stream: stream.to_owned(),
                        number: follower.number,
                        events: follower.events.clone(),
                        patience: follower.idle_max,
                    });
                }
            }
        }
        (
            self.take_out(stream, |follower| follower.state == State::Ended),
            full,
        )
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{self, Receiver};

    use super::*;
    use crate::run::{Run, RunStatus};
    use crate::stores::streams::EVENTS_WAITING_MAX;
    use crate::stream_event::{self, Answer, Fields};

    const STREAM: &str = "chat:stream:c:r";
    const MINUTE: Duration = Duration::from_secs(60);

    fn id(text: &str) -> EntryId {
        text.parse().expect(text)
    }

    fn entry(id_text: &str, fields: Fields) -> (EntryId, Entry) {
        let fields = fields.into_iter();
        let owned = fields.map(|(name, value)| (name.to_owned(), value));
        (id(id_text), owned.collect())
    }

    fn chunk(id: &str) -> (EntryId, Entry) {
        entry(id, stream_event::chunk(&Run::new("c", "r"), id))
    }

    fn last(id: &str) -> (EntryId, Entry) {
        let run = Run::new("c", "r");
        entry(id, stream_event::end(&run, RunStatus::Completed, ""))
    }

    fn join(followers: &mut Followers, number: u64, told: &str) -> Receiver<Event> {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let follower = Follower::new(number, sender, id(told), MINUTE);
        followers.join(STREAM.to_owned(), follower);
        events
    }

    /// The texts that one has been told.
    fn told(events: &mut Receiver<Event>) -> Vec<String> {
        let mut texts = Vec::new();
        while let Ok(event) = events.try_recv() {
            texts.push(match event {
                Event::Chunk(Answer { message, .. }) => message,
                other => format!("{other:?}"),
            });
        }
        texts
    }

    /// Begins a read; after which entries.
    fn wanted(followers: &mut Followers) -> Vec<String> {
        followers.begin_read(Instant::now()).1
    }

    #[test]
    fn a_stream_is_read_once_for_all_and_each_is_told_what_it_does_not_know() {
        let mut followers = Followers::default();
        let mut from_the_start = join(&mut followers, 1, "0-0");
        let mut from_two = join(&mut followers, 2, "2-0");
        assert_eq!(followers.begin_read(Instant::now()).0, [STREAM]);
        assert_eq!(wanted(&mut followers), ["0-0"]);
        let entries = vec![chunk("1-0"), chunk("2-0"), chunk("3-0")];
        let (ended, full) = followers.tell(STREAM, entries, Instant::now());
        assert_eq!((ended, full.len()), (0, 0));
        assert_eq!(told(&mut from_the_start), ["1-0", "2-0", "3-0"]);
        assert_eq!(told(&mut from_two), ["3-0"]);
        assert_eq!(wanted(&mut followers), ["3-0"]);
    }

    #[test]
    fn the_last_entry_ends_whoever_is_told_it() {
        let mut followers = Followers::default();
        let mut one = join(&mut followers, 1, "0-0");
        let mut behind = join(&mut followers, 2, "9-0");
        wanted(&mut followers);
        let entries = vec![chunk("1-0"), last("2-0"), chunk("3-0")];
        let (ended, _) = followers.tell(STREAM, entries, Instant::now());
        assert_eq!(ended, 1);
        // What comes behind an end isn't for anybody, as on a thread.
        assert_eq!(told(&mut one), ["1-0", "End(Completed)"]);
        assert!(one.is_closed());
        assert!(told(&mut behind).is_empty() && !behind.is_closed());
    }

    #[test]
    fn who_has_no_room_is_left_out_and_misses_nothing() {
        let mut followers = Followers::default();
        let mut slow = join(&mut followers, 1, "0-0");
        let mut quick = join(&mut followers, 2, "0-0");
        let ids: Vec<String> = (1..=EVENTS_WAITING_MAX + 4)
            .map(|n| format!("{n}-0"))
            .collect();
        for id in &ids {
            wanted(&mut followers);
            let (_, full) = followers.tell(STREAM, vec![chunk(id)], Instant::now());
            let is_first_too_many = *id == format!("{}-0", EVENTS_WAITING_MAX + 1);
            assert_eq!(full.len(), usize::from(is_first_too_many), "{id}");
            assert_eq!(told(&mut quick), [id.as_str()]);
        }
        // It is read for the quick one, and then again for the slow one.
        assert_eq!(
            wanted(&mut followers),
            [ids[EVENTS_WAITING_MAX + 3].as_str()]
        );
        assert_eq!(told(&mut slow), ids[..EVENTS_WAITING_MAX]);
        followers.resume(STREAM, 1, Instant::now());
        assert_eq!(
            wanted(&mut followers),
            [ids[EVENTS_WAITING_MAX - 1].as_str()]
        );
        let again = ids[EVENTS_WAITING_MAX..].iter().map(|id| chunk(id));
        followers.tell(STREAM, again.collect(), Instant::now());
        assert_eq!(told(&mut slow), ids[EVENTS_WAITING_MAX..]);
        assert!(told(&mut quick).is_empty());
    }

    #[test]
    fn a_read_is_for_those_who_were_there_as_it_began() {
        let mut followers = Followers::default();
        let mut first = join(&mut followers, 1, "5-0");
        assert_eq!(wanted(&mut followers), ["5-0"]);
        let mut second = join(&mut followers, 2, "0-0");
        followers.tell(STREAM, vec![chunk("6-0")], Instant::now());
        assert_eq!(told(&mut first), ["6-0"]);
        // It must hear what came before, first.
        assert!(told(&mut second).is_empty());
        assert_eq!(wanted(&mut followers), ["0-0"]);
        let all = vec![chunk("1-0"), chunk("6-0")];
        followers.tell(STREAM, all, Instant::now());
        assert_eq!(told(&mut second), ["1-0", "6-0"]);

        // The same goes for one that has room again.
        let too_many = (7..=7 + EVENTS_WAITING_MAX).map(|n| chunk(&format!("{n}-0")));
        wanted(&mut followers);
        let (_, full) = followers.tell(STREAM, too_many.collect(), Instant::now());
        assert_eq!(full.len(), 2);
        followers.resume(STREAM, 1, Instant::now());
        let read = wanted(&mut followers);
        followers.resume(STREAM, 2, Instant::now());
        for events in [&mut first, &mut second] {
            told(events);
        }
        followers.tell(STREAM, vec![chunk("99-0")], Instant::now());
        assert_eq!(told(&mut first), ["99-0"]);
        assert!(told(&mut second).is_empty());
        assert_eq!(wanted(&mut followers), read);
    }

    #[test]
    fn a_stream_that_all_wait_for_is_not_read() {
        let mut followers = Followers::default();
        let _events = join(&mut followers, 1, "0-0");
        wanted(&mut followers);
        let too_many = (1..=EVENTS_WAITING_MAX + 1).map(|n| chunk(&format!("{n}-0")));
        let (_, full) = followers.tell(STREAM, too_many.collect(), Instant::now());
        assert_eq!(full.len(), 1);
        assert!(wanted(&mut followers).is_empty());
        // It is not idle either: its client is.
        assert!(followers.end_idle(Instant::now() + MINUTE).is_empty());
    }

    #[test]
    fn who_has_heard_nothing_for_too_long_is_out() {
        let mut followers = Followers::default();
        let mut early = join(&mut followers, 1, "0-0");
        let now = Instant::now();
        assert!(followers.end_idle(now).is_empty());
        wanted(&mut followers);
        followers.tell(STREAM, vec![chunk("1-0")], now + MINUTE);
        let late = join(&mut followers, 2, "1-0");
        // The later one has heard nothing since it came.
        let idle = followers.end_idle(now + MINUTE + MINUTE / 2);
        assert_eq!(idle, [(STREAM.to_owned(), 1)]);
        assert!(late.is_closed() && !early.is_closed());
        assert_eq!(told(&mut early), ["1-0"]);
        assert_eq!(followers.end_idle(now + 2 * MINUTE).len(), 1);
        assert!(followers.is_empty() && early.is_closed());
    }

    #[test]
    fn who_has_not_been_read_for_has_not_heard_nothing() {
        let mut followers = Followers::default();
        let events = join(&mut followers, 1, "0-0");
        // Connecting has taken that long.
        let late = Instant::now() + MINUTE;
        assert!(followers.end_idle(late).is_empty());
        followers.begin_read(late);
        assert!(followers.end_idle(late + MINUTE / 2).is_empty());
        // A further read begins nothing anew.
        followers.begin_read(late + MINUTE / 2);
        assert!(!events.is_closed());
        assert_eq!(followers.end_idle(late + MINUTE).len(), 1);
        assert!(events.is_closed());
    }

    #[test]
    fn who_is_never_read_for_is_out_in_the_end() {
        let mut followers = Followers::default();
        let _events = join(&mut followers, 1, "0-0");
        let patience = MINUTE + REDIS_WAIT;
        assert_eq!(followers.end_idle(Instant::now() + patience).len(), 1);
    }

    #[test]
    fn streams_are_looked_for_together() {
        let mut followers = Followers::default();
        let age = Duration::from_secs(4);
        let start = Instant::now();
        for stream in ["a", "b", "c"] {
            let (sender, _) = mpsc::channel(1);
            let follower = Follower::new(0, sender, EntryId::START, MINUTE);
            followers.join(stream.to_owned(), follower);
        }
        assert_eq!(followers.unseen(start, age).len(), 3);
        assert_eq!(followers.quiet_time(start, age), Duration::ZERO);
        followers.see("a", start);
        followers.see("b", start + age / 2);
        followers.see("c", start + age);
        assert!(followers.unseen(start + age / 2, age).is_empty());
        assert_eq!(followers.quiet_time(start + age / 2, age), age / 2);
        let mut unseen = followers.unseen(start + age, age);
        unseen.sort();
        assert_eq!(unseen, ["a", "b"]);
        followers.see_none();
        assert_eq!(followers.unseen(start + age, age).len(), 3);
    }

    #[test]
    fn who_leaves_is_out_once() {
        let mut followers = Followers::default();
        let _one = join(&mut followers, 1, "0-0");
        let _two = join(&mut followers, 2, "0-0");
        assert!(followers.leave(STREAM, 1));
        assert!(!followers.leave(STREAM, 1));
        assert!(!followers.is_empty());
        assert_eq!(followers.end_all(), [(STREAM.to_owned(), 1)]);
        assert!(followers.is_empty());
        assert_eq!(followers.end(STREAM), 0);
    }
}
