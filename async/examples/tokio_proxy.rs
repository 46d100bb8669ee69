//! Carries TCP connections over superpipe: one proxy beside the clients, another beside the server, and a connection of superpipe for each client.
//!
//!     client ── TCP ──▶ entrance ══ superpipe ══▶ exit ── TCP ──▶ server
//!
//! Here all of them are tasks of one program, and the server sends everything back. `cargo run -p superpipe-tokio --example tokio_proxy`. With an
//! argument, the proxies meet at that address, such as `verbs:HOST:0` of an RDMA device of this host.

use core::time::Duration;
use std::io;

use superpipe_tokio::{Address, Connection, Listener, Options};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bound on making a connection.
const CONNECT: Duration = Duration::from_secs(10);

const CLIENTS: u8 = 8;
const BYTES: usize = 3 << 20;

/// Accepts TCP clients, and carries each over a connection of its own.
async fn entrance(clients: TcpListener, exit: Address) -> io::Result<()> {
    loop {
        let (client, _) = clients.accept().await?;
        let exit = exit.clone();
        tokio::spawn(async move {
            let carried = Connection::connect(&exit, Options::default(), CONNECT).await?;
            carry(client, carried).await
        });
    }
}

/// Accepts what an entrance carries, and connects each to the server.
async fn exit(mut entrances: Listener, server: String) -> io::Result<()> {
    loop {
        // One that fails concerns nobody else.
        let Ok(carried) = entrances.accept().await else { continue };
        let server = server.clone();
        tokio::spawn(async move { carry(TcpStream::connect(server).await?, carried).await });
    }
}

/// Copies both directions until each has ended. A direction is one stream of superpipe.
async fn carry(mut tcp: TcpStream, carried: Connection) -> io::Result<()> {
    let (mut send, mut recv) = carried.split();
    let (mut from_tcp, mut to_tcp) = tcp.split();
    let out = async {
        let mut stream = send.open_stream(0).await?;
        copy(&mut from_tcp, &mut stream).await?;
        stream.shutdown().await
    };
    let back = async {
        let mut stream = recv.accept_stream().await?;
        copy(&mut stream, &mut to_tcp).await?;
        to_tcp.shutdown().await
    };
    tokio::try_join!(out, back)?;
    // The peer may still have to take what is in the landing buffer.
    Ok(send.flush().await?)
}

/// Copies by pieces that are worth a chunk.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut piece = vec![0; 256 << 10];
    loop {
        let bytes = from.read(&mut piece).await?;
        if bytes == 0 {
            return Ok(());
        }
        to.write_all(&piece[..bytes]).await?;
    }
}

/// Sends everything back.
async fn echo_server(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut client, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut from, mut to) = client.split();
            tokio::io::copy(&mut from, &mut to).await?;
            to.shutdown().await
        });
    }
}

/// Sends bytes, and expects them back.
async fn client(entrance: String, seed: u8) -> io::Result<()> {
    let sent: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 253).to_le_bytes()[0] ^ seed).collect();
    let (mut from, mut to) = TcpStream::connect(entrance).await?.into_split();
    let sending = {
        let sent = sent.clone();
        tokio::spawn(async move {
            to.write_all(&sent).await?;
            to.shutdown().await
        })
    };
    let mut got = Vec::with_capacity(BYTES);
    from.read_to_end(&mut got).await?;
    sending.await.map_err(io::Error::other)??;
    if got == sent { Ok(()) } else { Err(io::Error::other("other bytes came back")) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let server = TcpListener::bind("127.0.0.1:0").await?;
    let server_addr = server.local_addr()?.to_string();
    tokio::spawn(echo_server(server));

    let between = std::env::args().nth(1).unwrap_or_else(|| "localhost:0".into());
    let entrances = Listener::bind(&between.parse()?, Options::default())?;
    let exit_addr = entrances.local_addr().clone();
    tokio::spawn(exit(entrances, server_addr));

    let clients = TcpListener::bind("127.0.0.1:0").await?;
    let entrance_addr = clients.local_addr()?.to_string();
    tokio::spawn(entrance(clients, exit_addr));

    let all: Vec<_> = (0..CLIENTS).map(|seed| tokio::spawn(client(entrance_addr.clone(), seed))).collect();
    for one in all {
        tokio::time::timeout(Duration::from_secs(60), one).await???;
    }
    println!("{CLIENTS} clients got {BYTES} bytes back each");
    Ok(())
}
