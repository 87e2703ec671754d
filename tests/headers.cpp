// Nothing: it stands for the headers that all tests share (CMakeLists.txt).
int main() {}
