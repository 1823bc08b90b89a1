//! A real server on a free port, and clients that speak to it.

mod backups;
mod blind;
mod client;
mod cold;
mod collections;
mod connections;
mod differential;
mod expired;
mod guesses;
mod keys;
mod kill;
mod large;
mod limits;
mod managed;
mod memcached;
mod memcached_differential;
mod other;
mod page;
mod restart;
mod sockets;
mod strings;
mod transactions;
mod users;
mod web;
