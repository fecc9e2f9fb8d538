// Calls BLAS through JNI from several threads of its own, then leaves by System.exit(7) or by returning.
// Multiply LIBRARY THREADS CALLS exit|return [PARENT DONE]: with those it first waits until the process PARENT has ended,
// and creates the file DONE after its last call.
import java.nio.file.Files;
import java.nio.file.Paths;

// Computes where its methods' names say, compiled: three times as long in often() as in seldom().
class Burn {
  static double often(double x) {
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001 + i;
    return x;
  }

  static double seldom(double x) {
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001 - i;
    return x;
  }

  public static void main(String[] arguments) {
    double x = 1;
    for (int i = 0; i < 50000; ++i) x = seldom(often(often(often(x))));
    System.out.println(x);
  }
}

class Multiply extends Thread {
  static int calls;
  float sum;

  static native float multiply(int calls);

  public void run() {
    sum = multiply(calls);
  }

  public static void main(String[] arguments) throws Exception {
    System.load(arguments[0]);
    calls = Integer.parseInt(arguments[2]);
    if (arguments.length > 4) waitForEnd(Long.parseLong(arguments[4]));
    Multiply[] threads = new Multiply[Integer.parseInt(arguments[1])];
    for (int i = 0; i < threads.length; ++i) (threads[i] = new Multiply()).start();
    float sum = 0;
    for (Multiply thread : threads) {
      thread.join();
      sum += thread.sum;
    }
    System.out.println("sum " + sum);
    if (arguments.length > 4) Files.createFile(Paths.get(arguments[5]));
    if (arguments[3].equals("exit")) System.exit(7);
  }

  static void waitForEnd(long process) throws Exception {
    while (ProcessHandle.of(process).isPresent()) Thread.sleep(5);
  }
}
