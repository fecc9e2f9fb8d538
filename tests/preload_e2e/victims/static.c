// Statically linked: no dynamic loader, so nothing can be preloaded into it.
int main(void) { return 0; }
