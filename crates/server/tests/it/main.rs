//! A real server on a free port, and clients that speak to it.

mod algebra;
mod client;
mod cold;
mod collections;
mod connections;
mod differential;
mod expired;
mod keys;
mod kill;
mod limits;
mod memcached;
mod memcached_differential;
mod other;
mod page;
mod restart;
mod strings;
mod tools;
mod transactions;
mod web;
