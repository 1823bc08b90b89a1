//! Serves a store to clients of Redis and memcached until the process is ended:
//! `serve DIRECTORY [REDIS-ADDRESS [MEMCACHED-ADDRESS]]`.
//!
//! ```sh
//! cargo run --release -p alluvium-server --example serve -- /tmp/rivers 127.0.0.1:6379 &
//! redis-cli set Elbe "1094 km"
//! ```

use alluvium_server::{Server, ServerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments
        .next()
        .ok_or("usage: serve DIRECTORY [REDIS-ADDRESS [MEMCACHED-ADDRESS]]")?;
    let db = alluvium::Db::open(directory)?;
    let options = ServerOptions {
        redis: Some(arguments.next().as_deref().unwrap_or("127.0.0.1:6379").parse()?),
        memcached: arguments.next().map(|address| address.parse()).transpose()?,
        ..ServerOptions::default()
    };
    let server = Server::start(&db, options)?;
    println!(
        "listening at {:?} and {:?}",
        server.redis_addr(),
        server.memcached_addr()
    );
    server.join()?;
    Ok(())
}
