//! Which request a traced loop works on: read from the memory that the Python middleware shares
//! in proof mode (`unstall/proof.py`, which writes this layout).
//!
//! The route of a request is known only after its first steps, so a step names the request by a
//! serial number, and the middleware tells later which endpoint that was.

use std::collections::BTreeMap;
use std::fs;

use crate::process::ProcessView;

/// Name of the memory in `/proc/PID/maps`.
const MAPPING: &str = "/memfd:unstall-proof";
/// `UNSTPRF1`, read as a little-endian word.
const MAGIC: u64 = u64::from_le_bytes(*b"UNSTPRF1");
const HEADER_WORDS: usize = 8;
const SLOT_WORDS: usize = 2;
const REQUEST_WORDS: usize = 3;
const ENDPOINT_WORDS: usize = 32;
/// Requests, steps and the name's length come before the name.
const ENDPOINT_HEAD_WORDS: usize = 3;
/// No page of ours is larger: a header that says so is somebody else's.
const COUNT_MAX: u64 = 1 << 20;

/// The middleware's memory in a traced process.
#[derive(Debug)]
pub(super) struct RouteMemory {
    view: ProcessView,
    slots: Table,
    requests: Table,
    endpoints: Table,
    /// Thread → its number in the process' own namespace, by which it names itself here, and the
    /// address of its slot once it has one.
    found: BTreeMap<u32, (u64, Option<u64>)>,
}

#[derive(Debug, Clone, Copy)]
struct Table {
    address: u64,
    len: u64,
}

/// What the middleware counted for one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointCounts {
    /// `METHOD /route`
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) steps: u64,
}

impl RouteMemory {
    /// `None` while the process has no such memory.
    pub(super) fn find(view: &ProcessView) -> Option<Self> {
        // A process that can't be read is told by whoever attached to it.
        let maps = fs::read_to_string(view.root().join("maps")).ok()?;
        let line = maps.lines().find(|line| line.contains(MAPPING))?;
        let start = u64::from_str_radix(line.split('-').next()?, 16).ok()?;
        let header: [u64; HEADER_WORDS] = read_words(view, start)?;
        let [magic, 1, slots, requests, endpoints, ..] = header else {
            return None;
        };
        if magic != MAGIC
            || [slots, requests, endpoints]
                .iter()
                .any(|len| *len > COUNT_MAX)
        {
            return None;
        }
        let words = |count: usize| 8 * count as u64;
        let slots = Table {
            address: start + words(HEADER_WORDS),
            len: slots,
        };
        let requests = Table {
            address: slots.address + slots.len * words(SLOT_WORDS),
            len: requests,
        };
        let endpoints = Table {
            address: requests.address + requests.len * words(REQUEST_WORDS),
            len: endpoints,
        };
        Some(Self {
            view: view.clone(),
            slots,
            requests,
            endpoints,
            found: BTreeMap::new(),
        })
    }

    /// The serial number of the request whose step runs on this thread; `None` between steps.
    pub(super) fn current(&mut self, tid: u32) -> Option<u64> {
        let (inner, address) = match self.found.get(&tid) {
            Some(found) => *found,
            None => (self.view.inner_tid(tid)?, None),
        };
        let address = address.or_else(|| self.slot_of(inner));
        self.found.insert(tid, (inner, address));
        let [owner, serial] = read_words::<SLOT_WORDS>(&self.view, address?)?;
        (owner == inner && serial != 0).then_some(serial)
    }

    /// A thread has ended; its number may be another one's next.
    pub(super) fn forget(&mut self, tid: u32) {
        self.found.remove(&tid);
    }

    fn slot_of(&self, inner: u64) -> Option<u64> {
        let slot = self.slots().find(|(_, [owner, _])| *owner == inner);
        slot.map(|(address, _)| address)
    }

    /// Those that have an owner, each with its address.
    fn slots(&self) -> impl Iterator<Item = (u64, [u64; SLOT_WORDS])> {
        let slots = (0..self.slots.len).map_while(|index| {
            let address = self.slots.address + index * 8 * SLOT_WORDS as u64;
            Some((address, read_words(&self.view, address)?))
        });
        slots.take_while(|(_, [owner, _])| *owner != 0)
    }

    /// The endpoint of a request, once it is known.
    pub(super) fn endpoint_of(&self, serial: u64) -> Settled {
        let index = serial % self.requests.len.max(1);
        let address = self.requests.address + index * 8 * REQUEST_WORDS as u64;
        match read_words::<REQUEST_WORDS>(&self.view, address) {
            Some([written, endpoint, _]) if written == serial && endpoint > 0 => self
                .endpoint(endpoint - 1)
                .map_or(Settled::Never, |endpoint| Settled::As(endpoint.name)),
            // A later request has taken its place.
            Some([written, ..]) if written > serial => Settled::Never,
            Some(_) => Settled::NotYet,
            None => Settled::Never,
        }
    }

    /// All endpoints and what was counted so far.
    pub(super) fn endpoints(&self) -> Vec<EndpointCounts> {
        (0..self.endpoints.len)
            .map_while(|index| self.endpoint(index))
            .collect()
    }

    fn endpoint(&self, index: u64) -> Option<EndpointCounts> {
        if index >= self.endpoints.len {
            return None;
        }
        let address = self.endpoints.address + index * 8 * ENDPOINT_WORDS as u64;
        let words: [u64; ENDPOINT_WORDS] = read_words(&self.view, address)?;
        let name: Vec<u8> = words[ENDPOINT_HEAD_WORDS..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let len = usize::try_from(words[2]).ok()?.min(name.len());
        (len > 0).then(|| EndpointCounts {
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
            requests: words[0],
            steps: words[1],
        })
    }
}

/// Whether a request's endpoint is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settled {
    /// Its routing isn't over.
    NotYet,
    /// It is this one.
    As(String),
    /// It won't be known any more.
    Never,
}

impl Settled {
    /// The endpoint, if it is known.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Self::As(name) => Some(name),
            Self::NotYet | Self::Never => None,
        }
    }
}

fn read_words<const N: usize>(view: &ProcessView, address: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; 8 * N];
    // Memory that is gone is that of a process that has ended.
    let read = view.read_memory(address, &mut bytes).ok()?;
    if read < bytes.len() {
        return None;
    }
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    Some(words)
}
