import java.nio.ByteBuffer;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/** The part of Measure for RocksDB, with the memory and the durability of the others. */
final class MeasureRocks implements Measure.Body {
  private final Measure measure;

  MeasureRocks(Measure measure) {
    this.measure = measure;
  }

  @Override
  public void run() throws Exception {
    RocksDB.loadLibrary();
    byte[][] keys = measure.keys;
    BlockBasedTableConfig table = new BlockBasedTableConfig();
    table.setBlockCache(new LRUCache(Measure.MEMORY / 2)).setFilterPolicy(new BloomFilter(10, false));
    try (Options options = new Options().setCreateIfMissing(true);
        RocksDB database = RocksDB.open(
            options.setWriteBufferSize(Measure.MEMORY / 4).setTableFormatConfig(table), measure.path);
        WriteOptions writing = new WriteOptions();
        ReadOptions reading = new ReadOptions();
        WriteBatch batch = new WriteBatch()) {
      measure.measured("puts", () -> {
        for (int n = 0; n < keys.length; ) {
          for (batch.clear(); n < keys.length && batch.count() < Measure.BATCH; n++) {
            batch.put(keys[n], Measure.VALUE);
          }
          database.write(writing, batch);
        }
      });
      database.flush(new FlushOptions());
      measure.measured("scan", () -> {
        int count = 0;
        try (RocksIterator iterator = database.newIterator()) {
          for (iterator.seekToFirst(); iterator.isValid(); iterator.next(), count++) {
            measure.require(iterator.key().length == 16 && iterator.value().length == 100);
          }
        }
        measure.require(count == keys.length);
      });
      ByteBuffer key = Measure.direct(16);
      ByteBuffer value = Measure.direct(100);
      measure.measured("scan-direct", () -> {
        int count = 0;
        try (RocksIterator iterator = database.newIterator()) {
          for (iterator.seekToFirst(); iterator.isValid(); iterator.next(), count++) {
            measure.require(iterator.key(key.clear()) == 16 && iterator.value(value.clear()) == 100);
          }
        }
        measure.require(count == keys.length);
      });
      // The first pass fills the caches.
      measure.gets("first-gets", bytes -> database.get(bytes).length);
      measure.gets("gets", bytes -> database.get(bytes).length);
      measure.gets("gets-direct", bytes -> database.get(reading, key.clear().put(bytes).flip(), value.clear()));
    }
  }
}
