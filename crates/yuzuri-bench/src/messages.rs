//! Small messages over many connections: sequential requests and responses on each connection,
//! alone or beside bulk transfers. A separate process generates them, so that its CPU time contains
//! only the traffic. It is this program, started with a hidden subcommand.

use crate::cpu;
use crate::ends::Endpoints;
use crate::load::Worker;
use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use yuzuri_kernel::netns;

/// The connections of a message process.
#[derive(Debug, Clone, Args)]
pub struct MessageArgs {
    /// The clients connect, the servers accept.
    #[command(flatten)]
    pub ends: Endpoints,
    /// Number of connections for messages
    #[arg(long)]
    pub connections: usize,
    /// Number of connections for concurrent bulk transfers
    #[arg(long, default_value_t = 0)]
    pub bulk: usize,
}

/// Cost of one order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ExchangeCost {
    pub transactions: u64,
    pub wall_ns: u64,
    /// CPU time of the process.
    pub cpu_ns: u64,
}

/// Size of a request and of a response, bytes.
const REQUEST_BYTES: usize = 64;
const RESPONSE_BYTES: usize = 256;
/// Requests in flight at once, each on its own connection.
const BATCH: usize = 64;
/// Connections to one server port: far fewer than there are ephemeral ports.
const CONNECTIONS_PER_PORT: usize = 10_000;
const CHUNK_BYTES: usize = 256 * 1024;

/// Running message processes: as many as the limit of open files per process requires.
pub struct Messages {
    workers: Vec<(Worker, usize)>,
    connections: usize,
}

impl Messages {
    /// Starts the processes and waits until all connections are established.
    pub fn start(args: &MessageArgs) -> anyhow::Result<Messages> {
        ensure!(args.connections > 0, "messages need a connection");
        let per_process = (raise_open_file_limit()? / 2).saturating_sub(args.bulk + 50).max(1);
        let mut workers = Vec::new();
        let mut left = args.connections;
        while left > 0 {
            let connections = left.min(per_process);
            // The first process has all bulk connections.
            let bulk = if workers.is_empty() { args.bulk } else { 0 };
            let mut argv = vec!["load-messages".to_owned(), "--bulk".to_owned(), bulk.to_string()];
            argv.extend(["--connections".to_owned(), connections.to_string()]);
            argv.extend(args.ends.to_args());
            workers.push((Worker::start(&argv)?, connections));
            left -= connections;
        }
        Ok(Messages { workers, connections: args.connections })
    }

    /// Exchanges about `transactions` requests and responses, spread evenly over the connections,
    /// while each bulk connection moves `bulk_bytes`.
    pub fn exchange(&mut self, transactions: u64, bulk_bytes: u64) -> anyhow::Result<ExchangeCost> {
        for (worker, connections) in &mut self.workers {
            let share = transactions * *connections as u64 / self.connections as u64;
            worker.send_order(&format!("{share} {bulk_bytes}"))?;
        }
        let mut all = ExchangeCost { transactions: 0, wall_ns: 0, cpu_ns: 0 };
        for (worker, _) in &mut self.workers {
            let one: ExchangeCost = serde_json::from_str(&worker.line()?)?;
            all.transactions += one.transactions;
            all.wall_ns = all.wall_ns.max(one.wall_ns);
            all.cpu_ns += one.cpu_ns;
        }
        Ok(all)
    }
}

struct Pair {
    client: TcpStream,
    server: TcpStream,
}

/// The message process: connects, then executes orders from standard input, one per line, until end
/// of file.
pub fn serve(args: &MessageArgs) -> anyhow::Result<()> {
    if let Some(cpu) = args.ends.cpu {
        cpu::pin(cpu)?;
    }
    let all = args.connections + args.bulk;
    raise_open_file_limit()?;
    let ports = all.div_ceil(CONNECTIONS_PER_PORT);
    let ends = &args.ends;
    let listeners =
        netns::inside(&ends.into, || (0..ports).map(|_| listen(ends)).collect::<anyhow::Result<Vec<_>>>())
            .map_err(anyhow::Error::msg)??;
    let mut pairs = netns::inside(&ends.from, || {
        (0..all).map(|i| connect(ends, &listeners[i % ports])).collect::<anyhow::Result<Vec<_>>>()
    })
    .map_err(anyhow::Error::msg)??;
    let bulk = pairs.split_off(args.connections);
    println!("ready");
    let mut at = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (transactions, bytes) =
            line.split_once(' ').with_context(|| format!("unknown order '{line}'"))?;
        let (transactions, bytes): (u64, u64) = (transactions.parse()?, bytes.parse()?);
        let (started, cpu_before) = (Instant::now(), cpu::this_process_ns()?);
        std::thread::scope(|scope| {
            let threads: Vec<_> = bulk
                .iter()
                .filter(|_| bytes > 0)
                .flat_map(|pair| {
                    [
                        scope.spawn(move || send(&pair.client, bytes)),
                        scope.spawn(move || receive(&pair.server, bytes)),
                    ]
                })
                .collect();
            let exchanged = exchange(&pairs, &mut at, transactions);
            for thread in threads {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a bulk thread panicked"))?
                    .context("transferring bulk data")?;
            }
            exchanged
        })?;
        let wall_ns = started.elapsed().as_nanos() as u64;
        let cost = ExchangeCost { transactions, wall_ns, cpu_ns: cpu::this_process_ns()? - cpu_before };
        println!("{}", serde_json::to_string(&cost)?);
    }
    Ok(())
}

/// Exchanges messages. Each connection is used once per round, and consecutive ones are far apart
/// in the list. With many connections, a connection's kernel state has left the caches by its next
/// turn.
fn exchange(pairs: &[Pair], at: &mut usize, transactions: u64) -> anyhow::Result<()> {
    let step = stride(pairs.len());
    let (request, response) = ([0x5a; REQUEST_BYTES], [0xa5; RESPONSE_BYTES]);
    let (mut request_buffer, mut response_buffer) = ([0; REQUEST_BYTES], [0; RESPONSE_BYTES]);
    let mut left = transactions;
    while left > 0 {
        let batch = pairs.len().min(BATCH).min(usize::try_from(left).unwrap_or(BATCH));
        let pair = |i: usize| &pairs[(*at + i * step) % pairs.len()];
        for i in 0..batch {
            (&pair(i).client).write_all(&request).context("sending a request")?;
        }
        for i in 0..batch {
            (&pair(i).server).read_exact(&mut request_buffer).context("reading a request")?;
            (&pair(i).server).write_all(&response).context("sending a response")?;
        }
        for i in 0..batch {
            (&pair(i).client).read_exact(&mut response_buffer).context("reading a response")?;
        }
        *at = (*at + batch * step) % pairs.len();
        left -= batch as u64;
    }
    Ok(())
}

/// A step near the golden section of `count` and coprime to it, so that steps visit every element
/// before any repeats.
fn stride(count: usize) -> usize {
    fn gcd(a: usize, b: usize) -> usize {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let from = (count as f64 * 0.618) as usize;
    (from.max(1)..=count.max(1)).find(|step| gcd(*step, count) == 1).unwrap_or(1)
}

fn send(mut stream: &TcpStream, bytes: u64) -> std::io::Result<()> {
    let chunk = vec![0x5a; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let max = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= stream.write(&chunk[..max])? as u64;
    }
    Ok(())
}

fn receive(mut stream: &TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let max = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match stream.read(&mut buffer[..max])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(())
}

fn socket(ends: &Endpoints, address: SocketAddr) -> anyhow::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    ends.set_congestion_control(&socket)?;
    // Close with a reset, so that tens of thousands of connections leave no TIME-WAIT sockets.
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(socket)
}

fn listen(ends: &Endpoints) -> anyhow::Result<Socket> {
    let address = SocketAddr::new(ends.to, 0);
    let listener = socket(ends, address)?;
    listener.bind(&address.into()).with_context(|| format!("binding to {}", ends.to))?;
    listener.listen(128)?;
    Ok(listener)
}

fn connect(ends: &Endpoints, listener: &Socket) -> anyhow::Result<Pair> {
    let to = listener.local_addr()?.as_socket().context("the listener's address")?;
    let client = socket(ends, to)?;
    client.set_tcp_nodelay(true)?;
    client
        .connect_timeout(&to.into(), Duration::from_secs(5))
        .with_context(|| format!("connecting to {to}"))?;
    let server = listener.accept().context("accepting")?.0;
    server.set_tcp_nodelay(true)?;
    Ok(Pair { client: client.into(), server: server.into() })
}

/// Raises the limit of open files to this process's maximum, and returns it.
fn raise_open_file_limit() -> anyhow::Result<usize> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("reading the limit of open files")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("raising the limit of open files")?;
    }
    Ok(usize::try_from(hard).unwrap_or(usize::MAX).min(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_every_connection_once() {
        for count in [1, 2, 3, 4, 64, 500, 5_000, 25_000] {
            let step = stride(count);
            let visited: std::collections::HashSet<usize> = (0..count).map(|i| i * step % count).collect();
            assert_eq!(visited.len(), count, "step {step}");
        }
    }
}
