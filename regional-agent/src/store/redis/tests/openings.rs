//! Sessions whose opening was done, and whose answer was lost.

use super::super::script::Script;
use super::values::poll_async;
use super::*;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::policy_shelf::PolicyShelf;
use crate::region::Region;
use crate::store::Store;
use quorate_limiter::record::Record;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A way to a Redis that breaks once, when the answer to a call of this script is on it.
struct Way {
    script: String,
    loses: AtomicBool,
}

impl Way {
    /// One that loses nothing yet, and the address at which it begins.
    fn to(server: &Server, script: &Script) -> (Arc<Self>, String) {
        let way = Arc::new(Self { script: script.sha().to_owned(), loses: AtomicBool::new(false) });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("redis://{}", listener.local_addr().expect("an address"));
        let target = format!("127.0.0.1:{}", server.port());
        let relayed = Arc::clone(&way);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                relayed.relay(&client, &TcpStream::connect(&target).expect("it listens"));
            }
        });
        (way, address)
    }

    fn relay(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) {
        let lost = Arc::new(AtomicBool::new(false));
        let ends = |stream: &TcpStream| stream.try_clone().expect("a handle");
        let (way, noticed) = (Arc::clone(self), Arc::clone(&lost));
        pass_on(ends(client), ends(server), move |bytes| {
            let asked = bytes.windows(way.script.len()).any(|part| part == way.script.as_bytes());
            if asked && way.loses.swap(false, Ordering::SeqCst) {
                noticed.store(true, Ordering::SeqCst);
            }
            true
        });
        pass_on(ends(server), ends(client), move |_| !lost.load(Ordering::SeqCst));
    }
}

/// Passes on what comes until `passes` says no, or an end closes; then both are closed.
fn pass_on(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read) = from.read(&mut buffer)
            && read > 0
            && passes(&buffer[..read])
            && to.write_all(&buffer[..read]).is_ok()
        {}
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

fn region(store: RedisStore) -> Region {
    let shelf = PolicyShelf::open(None).expect("nothing to read");
    Region::new("eu".parse().expect("a name"), "eu-1".into(), Identity::begin(None), Store::Redis(store), shelf, Metrics::new())
}

async fn record(store: &RedisStore) -> Record {
    store.load().await.expect("it answers").record.expect("open")
}

/// The region opens a session after `seen`, and hears no answer.
async fn lose(way: &Way, region: &Region, seen: Option<u64>) {
    way.loses.store(true, Ordering::SeqCst);
    poll_async(async || region.open_session(seen).await.is_err() && !way.loses.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn a_session_whose_opening_was_not_heard_of_is_the_one_that_goes_on() {
    let server = Server::on_port(server::free_port(), "", &[]);
    let direct = store(&server);
    let (way, url) = Way::to(&server, &direct.scripts.open);
    let region = region(RedisStore::new(&settings(&url)).expect("an address"));
    poll_async(async || region.look_at_store().await.is_ok()).await;
    for session in [1, 2] {
        let seen = (session > 1).then_some(session - 1);
        lose(&way, &region, seen).await;
        let opened = record(&direct).await;
        assert_eq!((opened.session, opened.seq), (session, 0));

        poll_async(async || region.open_session(seen).await.is_ok()).await;
        assert_eq!(region.status().session, session);
        assert_eq!(record(&direct).await, opened, "nothing was opened beside it");
    }
}

#[tokio::test]
async fn a_session_that_another_agent_has_opened_since_is_not_gone_back_to() {
    let server = Server::on_port(server::free_port(), "", &[]);
    let direct = store(&server);
    let (way, url) = Way::to(&server, &direct.scripts.open);
    let region = region(RedisStore::new(&settings(&url)).expect("an address"));
    poll_async(async || region.look_at_store().await.is_ok()).await;
    lose(&way, &region, None).await;
    assert_eq!(record(&direct).await.session, 1);
    redis::cmd("HSET").arg(&direct.keys.lease).arg(&["session", "2", "nonce", "9"]).exec(&mut server.connect()).expect("set");

    poll_async(async || region.open_session(None).await.is_ok()).await;
    assert_eq!(region.status().session, 3);
}
