// Checks go-redis against a server: check PORT.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func must(holds bool, what string, err error) {
	if !holds || err != nil {
		fmt.Println("not so:", what, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		must(client.FlushDB(ctx).Err() == nil, "FLUSHDB", nil)
		must(client.Set(ctx, "key", "value", 0).Err() == nil, "SET", nil)
		value, err := client.Get(ctx, "key").Result()
		must(value == "value", "GET", err)
		_, err = client.Get(ctx, "none").Result()
		must(err == redis.Nil, "GET of nothing", nil)
		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "count")
			pipe.HSet(ctx, "hash", "a", 1, "b", 2)
			return nil
		})
		must(len(replies) == 2, "MULTI", err)
		hash, err := client.HGetAll(ctx, "hash").Result()
		must(len(hash) == 2 && hash["b"] == "2", "HGETALL", err)
		client.ZAdd(ctx, "scores", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"})
		scores, err := client.ZRangeWithScores(ctx, "scores", 0, -1).Result()
		must(len(scores) == 2 && scores[1].Score == 2.5, "ZRANGE", err)
		seen := 0
		keys := client.Scan(ctx, 0, "*", 2).Iterator()
		for keys.Next(ctx) {
			seen++
		}
		must(seen == 4, "SCAN", keys.Err())
		info, err := client.Info(ctx, "replication").Result()
		must(strings.Contains(info, "role:master"), "INFO", err)
		bytes, err := client.MemoryUsage(ctx, "hash").Result()
		must(bytes > 0, "MEMORY USAGE", err)
		commands, err := client.Command(ctx).Result()
		must(commands["get"] != nil, "COMMAND", err)
		client.Close()
	}
	fmt.Println("done")
}
