//! A way to Redis that can fall silent, or be cut.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy)]
struct State {
    is_open: bool,
    cuts: u32,
}

/// Forwards connections while it is open. Ends when it is dropped.
pub(crate) struct Gate {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Gate {
    pub(crate) async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (state, watched) = watch::channel(State {
            is_open: true,
            cuts: 0,
        });
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(client, target, watched.clone()));
            }
        });
        Self {
            address,
            state,
            accepting,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing passes any more, and nobody is told: as if the other side had lost its power.
    pub(crate) fn fall_silent(&self) {
        self.state.send_modify(|state| state.is_open = false);
    }

    /// What was held back passes, too.
    pub(crate) fn open(&self) {
        self.state.send_modify(|state| state.is_open = true);
    }

    /// Closes all connections. New ones are taken.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connection(client: TcpStream, target: SocketAddr, state: watch::Receiver<State>) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = forward(from_client, to_server, state.clone()) => {}
        () = forward(from_server, to_client, state) => {}
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
) {
    let cuts = state.borrow().cuts;
    let mut cut = state.clone();
    let passing = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if state.wait_for(|state| state.is_open).await.is_err() {
                return;
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let being_cut = async {
        // An error is the gate's end, which cuts as well.
        let _cut = cut.wait_for(|state| state.cuts != cuts).await;
    };
    tokio::select! {
        () = passing => {}
        () = being_cut => {}
    }
}
